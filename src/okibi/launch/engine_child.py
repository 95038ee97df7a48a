"""The engine process as its parent sees it.

Starts it early (importing torch takes longest), tells it what to build, and reports how it ended.
"""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process

from okibi.core.env import compute_environment
from okibi.launch.engine_spec import EngineSpec, encode_spec

_STOP_TIMEOUT_S = 10.0


class EngineChild:
    """A running engine process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_configured = False

    @classmethod
    async def start(cls) -> "EngineChild":
        """Start the process; it waits for its specification."""
        command = [sys.executable, "-m", "okibi.launch.engine"]
        return cls(
            await asyncio.create_subprocess_exec(*command, stdin=PIPE, env=compute_environment())
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def configure(self, spec: EngineSpec) -> None:
        """Say what to build. The pipe stays open: its end would end the child."""
        assert self._process.stdin is not None
        self._is_configured = True
        self._process.stdin.write(encode_spec(spec))
        await self._process.stdin.drain()

    async def wait(self) -> str:
        """Wait for its end; returns how it ended, in words."""
        code = await self._process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    async def stop(self) -> None:
        """Close its input, which ends it; kill it if that does not help."""
        if self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._is_configured:
            self._process.kill()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
