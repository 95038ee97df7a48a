"""Messages to an engine that does not take them yet, over a real queue of two."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import zmq

from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Drain, ResetPrefixCache
from okibi.server.engine_link import EngineLink
from okibi.server.engine_outbox import EngineOutbox


def fill(outbox: EngineOutbox) -> int:
    """How many messages the queue took."""
    for taken in range(100):
        if not outbox.send(ResetPrefixCache()):
            return taken
    raise AssertionError("the queue has no end")


def with_outbox(check: Callable[[EngineOutbox, Path], Awaitable[None]]) -> None:
    """Run `check` with an outbox that has room for two, and its folder, where no engine is yet."""

    async def run(folder: Path, context: zmq.Context) -> None:
        with closing(EngineOutbox(context, folder, max_queued=2)) as outbox:
            await asyncio.wait_for(check(outbox, folder), 20)

    with tempfile.TemporaryDirectory(prefix="okibi-") as folder, zmq.Context() as context:
        asyncio.run(run(Path(folder), context))


def test_an_abort_outlives_a_full_queue():
    async def check(outbox: EngineOutbox, folder: Path) -> None:
        taken = fill(outbox)
        for name in "abba":
            outbox.abort(RequestId(name))
        assert not outbox.send(Drain())
        arrived: list[Any] = []
        with closing(EngineLink(folder)) as link:
            link.receive_into(arrived.append, arrived.append)
            while len(arrived) < taken + 2:
                await asyncio.sleep(0.01)
            while not outbox.send(Drain()):
                await asyncio.sleep(0.01)
            while len(arrived) < taken + 3:
                await asyncio.sleep(0.01)
        aborts = [Abort(RequestId("a")), Abort(RequestId("b"))]
        assert arrived == [*[ResetPrefixCache()] * taken, *aborts, Drain()]

    with_outbox(check)


def test_what_is_kept_for_nobody_is_dropped():
    async def check(outbox: EngineOutbox, folder: Path) -> None:
        failures: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, info: failures.append(info))
        fill(outbox)
        outbox.abort(RequestId("a"))
        outbox.close()
        await asyncio.sleep(0.2)
        assert failures == []

    with_outbox(check)
