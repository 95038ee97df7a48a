"""Both ends of a link to an engine, in this process, and things to say over it."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from okibi.core.clock import VirtualClock
from okibi.core.ids import RequestId
from okibi.core.output import RequestOutput
from okibi.core.request import Request
from okibi.core.token_source import PackedTokens
from okibi.server.engine_client import EngineClient
from okibi.server.engine_link import EngineLink
from okibi.server.engine_protocol import News, Ready
from tests.support.builders import greedy, make_replica

READY = Ready(
    max_model_len=100,
    prefix_match_unit=4,
    pool_tokens=256,
    vocab_size=997,
    eos_token_ids=(1, 2),
    max_unfinished=10,
    scheduling_policy="fcfs",
    stats=make_replica().stats(),
)


def request(name: str = "r", prompt: tuple[int, ...] = (1, 2, 3), **changes: Any) -> Request:
    return Request(
        request_id=RequestId(name),
        prompt=PackedTokens.of(prompt),
        sampling=changes.pop("sampling", greedy()),
        **changes,
    )


def with_link(check: Callable[[EngineClient, EngineLink, list[Any]], Awaitable[None]]) -> None:
    """Run `check` with both ends of a link, and the messages that arrived."""

    async def run(folder: Path) -> None:
        arrived: list[Any] = []
        link = EngineLink(folder)
        client = EngineClient(folder, VirtualClock())
        link.receive_into(arrived.append, arrived.append)
        try:
            await asyncio.wait_for(check(client, link, arrived), 20)
        finally:
            client.close()
            link.close()

    with tempfile.TemporaryDirectory(prefix="okibi-") as folder:
        asyncio.run(run(Path(folder)))


def news(*outputs: RequestOutput) -> News:
    return News(outputs, make_replica().stats())
