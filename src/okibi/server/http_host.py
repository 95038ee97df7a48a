"""Runs the ASGI application on a socket, and ends it in good order.

SIGTERM or SIGINT drains: new calls are refused, running ones finish, for a while. A second signal,
or the end of that while, ends running calls with an error that their clients can see. A lost
engine ends everything. Owns signals and uvicorn; knows no route.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from okibi.server.engine_client import EngineClient, EngineLost
from okibi.server.http.lifecycle import Lifecycle
from okibi.server.http_protocol import BoundedConfig, HttpLimits

_FLUSH_S = 5


class HttpHost:
    """Serves until told to stop."""

    def __init__(
        self,
        app: ASGIApp,
        engine: EngineClient,
        lifecycle: Lifecycle,
        *,
        shutdown_timeout_s: float,
        show: Callable[[str], None],
        limits: HttpLimits | None = None,
    ) -> None:
        self._engine = engine
        self._lifecycle = lifecycle
        self._shutdown_timeout_s = shutdown_timeout_s
        self._show = show
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._server = _Server(BoundedConfig(app, limits or HttpLimits(), flush_s=_FLUSH_S))

    async def run(self, sock: socket.socket, engine_lost: asyncio.Task[str]) -> str | None:
        """Serve on `sock`, which must be bound.

        Args:
            engine_lost: Ends with the reason when the engine is gone.

        Returns:
            Why the engine was lost, or None after an orderly stop.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)
        serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({serving, stopping, engine_lost}, return_when=asyncio.FIRST_COMPLETED)
        if not engine_lost.done():
            await self._drain(engine_lost)
        reason = engine_lost.result() if engine_lost.done() else None
        self._engine.lose(reason or "the server is shutting down")
        self._lifecycle.begin_drain()
        await self._lifecycle.wait_idle(_FLUSH_S)
        self._server.should_exit = True
        await serving
        stopping.cancel()
        return reason

    def request_stop(self) -> None:
        """The first time: drain. The second time: hurry."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _drain(self, engine_lost: asyncio.Task[str]) -> None:
        self._lifecycle.begin_drain()
        with contextlib.suppress(EngineLost):
            self._engine.drain()
        self._show(
            f"stopping: running requests have {self._shutdown_timeout_s:g} s to finish; "
            "a second signal ends them now"
        )
        idle = asyncio.create_task(self._lifecycle.wait_idle(self._shutdown_timeout_s))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({idle, hurry, engine_lost}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        hurry.cancel()


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
