"""Starts one server, waits until it is ready, and leaves nothing of it behind.

A server gets a session of its own, so that a key press in the terminal reaches this program alone
and all its processes can be ended together. Must never measure anything but the start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import psutil

from benchmarks.peers.servers import HOST, ServerSpec
from benchmarks.peers.usage import process_tree
from okibi.core.clock import Clock
from okibi.core.env import child_environment
from okibi.core.errors import OkibiError

READY_TIMEOUT_S = 900.0
"""vLLM compiles when a model is first started, which takes minutes on two cores."""

STOP_TIMEOUT_S = 20.0

_POLL_S = 0.05
_LINES_OF_A_FAILURE = 6


class ServerFailed(OkibiError):
    """A server that did not start; the message names its log."""


class RunningServer:
    """A server that answers. `started_s` is when it was started, `ready_s` when it was ready."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, started_s: float) -> None:
        self.url = url
        self.started_s = started_s
        self.ready_s = started_s
        self._process = process

    @property
    def pid(self) -> int:
        """The first process of the server."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the first process still runs."""
        return self._process.poll() is None

    def wait_for_end(self, timeout_s: float) -> None:
        """Wait for the first process to end; return after `timeout_s` if it does not."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def running(spec: ServerSpec, log: Path, clock: Clock) -> AsyncIterator[RunningServer]:
    """The server, ready; ended with all its processes when the block is left.

    Raises ServerFailed if it ends or is not ready in time.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        output.write(f"$ {' '.join(spec.command)}\n".encode())
        output.flush()
        started_s = clock.now()
        process = subprocess.Popen(
            spec.command,
            env=child_environment(**spec.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = RunningServer(process, spec.url, started_s)
    try:
        await _wait_until_ready(server, spec.ready_path, log, clock)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then kill what is left of it and of the tree."""
    tree = process_tree(process.pid)
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    _signal_group(process.pid, signal.SIGKILL)
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(tree, timeout=STOP_TIMEOUT_S)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


async def _wait_until_ready(server: RunningServer, path: str, log: Path, clock: Clock) -> None:
    timeout = aiohttp.ClientTimeout(total=5.0)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while not await _answers(session, server.url + path):
            if not server.is_alive:
                raise ServerFailed(f"the server ended while it started; {_tail(log)}")
            if clock.now() - server.started_s > READY_TIMEOUT_S:
                raise ServerFailed(f"not ready after {READY_TIMEOUT_S:.0f} s; {_tail(log)}")
            await asyncio.sleep(_POLL_S)
    server.ready_s = clock.now()


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LINES_OF_A_FAILURE:]
    return "\n".join([f"see {log}", *lines])
