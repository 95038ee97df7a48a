"""Memory and processor time of children whose use is known."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers.usage import CpuMeter, memory_of, process_tree

MIB = 1 << 20
HOLDS = "held = bytearray(b'x') * (64 << 20); print(flush=True); import time; time.sleep(600)"
FREED = HOLDS.replace("print", "del held; print")
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}])"


@contextmanager
def child(program: str) -> Iterator[int]:
    """The child's id, once it or its own child has printed a line."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tree = process_tree(process.pid)
        yield process.pid
        for each in tree:
            each.kill()


def test_memory_is_that_of_the_whole_tree():
    with child(PARENT) as pid:
        assert len(process_tree(pid)) == 2
        memory = memory_of(pid)
    assert 64 * MIB < memory.pss_bytes < 200 * MIB
    assert memory.peak_rss_bytes > 64 * MIB


def test_the_peak_stays_when_memory_was_given_back():
    with child(FREED) as pid:
        memory = memory_of(pid)
    assert memory.pss_bytes < 64 * MIB < memory.peak_rss_bytes


def test_a_process_that_is_gone_uses_nothing():
    with child(HOLDS) as pid:
        pass
    assert memory_of(pid).peak_rss_bytes == 0
    assert process_tree(pid) == []


def test_what_neither_side_uses_is_foreign(monkeypatch):
    machine = iter([(100.0, 200.0), (130.0, 300.0)])
    ours = iter([[1.0, 2.0], [6.0, 7.0]])
    monkeypatch.setattr("benchmarks.peers.usage._machine_seconds", lambda: next(machine))
    monkeypatch.setattr("benchmarks.peers.usage._seconds", lambda _: next(ours))
    assert CpuMeter(1).foreign_share() == (30.0 - 10.0) / 100.0
