"""The HTTP process's end of the link to the engine.

Routes each output to the generation that waits for it, and remembers the engine's latest state
for metrics and health. If the engine is lost, every generation in flight ends with `EngineLost`.
Lives on one event loop; it starts and watches no process.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import zmq
import zmq.asyncio

from okibi.control.stats import ReplicaStats
from okibi.core.clock import Clock
from okibi.core.errors import ConfigError, OkibiError
from okibi.core.ids import RequestId
from okibi.core.messages import Drain, Message, ResetPrefixCache, Submit
from okibi.core.output import RequestOutput
from okibi.core.request import Request
from okibi.server.engine_link import event_address
from okibi.server.engine_outbox import MAX_QUEUED, EngineOutbox
from okibi.server.engine_protocol import (
    Failed,
    FromEngine,
    Loading,
    News,
    Ready,
    decode_event,
)


class EngineLost(OkibiError):
    """The engine is gone, and the generations in flight with it."""


class Generation:
    """The outputs of requests that were submitted together, in order of arrival."""

    def __init__(
        self, request_ids: Iterable[RequestId], abort: Callable[[RequestId], None]
    ) -> None:
        self._unfinished = dict.fromkeys(request_ids)
        self._abort = abort
        self._outputs: asyncio.Queue[RequestOutput | EngineLost] = asyncio.Queue()

    async def next_output(self) -> RequestOutput:
        """The next output of any of the requests.

        Raises:
            EngineLost: no more will come.
        """
        output = await self._outputs.get()
        if isinstance(output, EngineLost):
            raise output
        return output

    def abort(self, request_id: RequestId) -> None:
        """Stop one request; nothing more comes from it."""
        if request_id in self._unfinished:
            del self._unfinished[request_id]
            self._abort(request_id)

    def close(self) -> None:
        """Abort whatever has not finished. Idempotent."""
        for request_id in list(self._unfinished):
            self.abort(request_id)

    def deliver(self, output: RequestOutput) -> None:
        if output.finish_reason is not None:
            self._unfinished.pop(output.request_id, None)
        self._outputs.put_nowait(output)

    def lose(self, error: EngineLost) -> None:
        self._unfinished.clear()
        self._outputs.put_nowait(error)


class EngineClient:
    """Submits requests to one engine and hands out what comes back."""

    def __init__(self, folder: Path, clock: Clock, *, max_queued: int = MAX_QUEUED) -> None:
        """`folder` holds the link's sockets and must be private to one user.

        At most `max_queued` messages wait for the engine to take them.
        """
        self._clock = clock
        self._context = zmq.asyncio.Context()
        self._outbox = EngineOutbox(zmq.Context(self._context), folder, max_queued=max_queued)
        self._events = self._context.socket(zmq.PULL)
        self._events.setsockopt(zmq.RCVHWM, 0)
        self._events.bind(event_address(folder))
        self._generations: dict[RequestId, Generation] = {}
        self._stats: ReplicaStats | None = None
        self._ready: Ready | None = None
        self._lost: EngineLost | None = None
        self._num_steps = 0
        self._progress_at = clock.now()

    # -- state -----------------------------------------------------------------------------

    @property
    def stats(self) -> ReplicaStats | None:
        """The replica's state after its latest turn; None before `wait_ready`."""
        return self._stats

    @property
    def is_available(self) -> bool:
        return self._ready is not None and self._lost is None

    @property
    def limits(self) -> Ready:
        """What the engine said it can serve. Known after `wait_ready`."""
        if self._ready is None:
            raise EngineLost("the engine is not ready")
        return self._ready

    @property
    def num_inflight(self) -> int:
        """Requests submitted and not finished."""
        return len(self._generations)

    def seconds_without_progress(self) -> float:
        """How long work has been waiting for the end of a step; 0 when there is none."""
        if not self.has_work:
            return 0.0
        return self._clock.now() - self._progress_at

    @property
    def has_work(self) -> bool:
        """Whether requests are open here, or unfinished in the engine though nobody waits."""
        if self._generations:
            return True
        return self._stats is not None and bool(self._stats.num_running + self._stats.num_waiting)

    # -- requests --------------------------------------------------------------------------

    def submit(self, requests: tuple[Request, ...]) -> Generation:
        """Send requests that are taken together or not at all.

        Raises:
            EngineLost: there is no engine to send to.
        """
        generation = Generation((request.request_id for request in requests), self._abort)
        was_idle = not self.has_work
        self._send(Submit(requests))
        if was_idle:
            self._progress_at = self._clock.now()
        for request in requests:
            self._generations[request.request_id] = generation
        return generation

    def reset_prefix_cache(self) -> None:
        """Have the engine drop every cached block that no request uses.

        Raises:
            EngineLost: there is no engine to send to.
        """
        self._send(ResetPrefixCache())

    def drain(self) -> None:
        """Have the engine refuse new requests from now on. Raises `EngineLost`."""
        self._send(Drain())

    def _abort(self, request_id: RequestId) -> None:
        if self._generations.pop(request_id, None) is not None:
            self._outbox.abort(request_id)

    def _send(self, message: Message) -> None:
        if self._lost is not None:
            raise self._lost
        if not self._outbox.send(message):
            raise EngineLost("the engine does not take messages")

    # -- events ----------------------------------------------------------------------------

    async def wait_ready(self, show: Callable[[str], None]) -> Ready:
        """Wait until the engine has started; `show` gets its progress lines.

        Raises:
            ConfigError: it cannot start as configured.
            EngineLost: it broke.
        """
        while True:
            match await self._next_event():
                case Loading(message):
                    show(message)
                case Ready() as ready:
                    self._ready = ready
                    self._stats = ready.stats
                    return ready
                case Failed(message, is_config):
                    raise ConfigError(message) if is_config else EngineLost(message)
                case News():
                    continue

    async def route(self) -> None:
        """Deliver outputs until the engine says that it failed. Run as a task.

        Raises:
            EngineLost: with the engine's own reason.
        """
        while True:
            event = await self._next_event()
            if isinstance(event, News):
                self._take(event)
            elif isinstance(event, Failed):
                raise EngineLost(event.message)

    def lose(self, reason: str) -> None:
        """End every generation in flight; later submissions fail at once. Idempotent."""
        if self._lost is not None:
            return
        self._lost = EngineLost(reason)
        for generation in dict.fromkeys(self._generations.values()):
            generation.lose(self._lost)
        self._generations.clear()

    def close(self) -> None:
        """Free the sockets. Whatever is in flight ends with `EngineLost`."""
        self.lose("the server has stopped")
        self._outbox.close()
        self._context.destroy(linger=0)

    async def _next_event(self) -> FromEngine:
        return decode_event(await self._events.recv())

    def _take(self, news: News) -> None:
        self._stats = news.stats
        if news.stats.counters.num_steps != self._num_steps:
            self._num_steps = news.stats.counters.num_steps
            self._progress_at = self._clock.now()
        for output in news.outputs:
            generation = self._generations.get(output.request_id)
            if generation is None:
                continue
            if output.finish_reason is not None:
                del self._generations[output.request_id]
            generation.deliver(output)
