"""What processes use: memory of a tree, and processor time that belongs to neither side.

Processes may end while they are looked at; what is gone counts as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_HIGHEST_RSS = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Bytes of a tree now (shared pages counted once), and the sum of each process's highest."""

    pss_bytes: int
    peak_rss_bytes: int


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty once it is gone."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def memory_of(pid: int) -> Memory:
    """Memory of a tree."""
    pss = peak = 0
    for process in process_tree(pid):
        with suppress(psutil.Error, OSError):
            pss += process.memory_full_info().pss
            found = _HIGHEST_RSS.search(Path(f"/proc/{process.pid}/status").read_text())
            peak += int(found.group(1)) * 1024 if found else 0
    return Memory(pss_bytes=pss, peak_rss_bytes=peak)


class CpuMeter:
    """Measures from its making on."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._ours_s = self._ours()
        self._busy_s, self._all_s = _machine_seconds()

    def foreign_share(self) -> float:
        """Share of the machine, 0 to 1, that neither this process nor the server's tree used.

        Time that the host of a virtual machine gave to others is foreign too.
        """
        busy_s, all_s = _machine_seconds()
        foreign_s = (busy_s - self._busy_s) - (self._ours() - self._ours_s)
        elapsed_s = all_s - self._all_s
        return min(1.0, max(0.0, foreign_s / elapsed_s)) if elapsed_s > 0 else 0.0

    def _ours(self) -> float:
        return sum(_seconds([psutil.Process(), *process_tree(self._server_pid)]))


def _seconds(processes: list[psutil.Process]) -> Iterator[float]:
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            yield times.user + times.system


def _machine_seconds() -> tuple[float, float]:
    """Processor seconds since boot: those in use (or stolen), and all."""
    times = psutil.cpu_times()
    in_use = (times.user, times.nice, times.system, times.irq, times.softirq, times.steal)
    return sum(in_use), sum(in_use) + times.idle + times.iowait
