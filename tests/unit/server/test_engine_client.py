"""The client's end of the link, driven by a script at the engine's end."""

import asyncio
import tempfile
from array import array
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from okibi.core.clock import VirtualClock
from okibi.core.errors import ConfigError
from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Drain, ResetPrefixCache, Submit
from okibi.core.output import FinishReason, RequestOutput
from okibi.server.engine_client import EngineClient, EngineLost, Generation
from okibi.server.engine_link import EngineLink
from okibi.server.engine_protocol import Failed, Loading
from tests.support.link import READY, news, request, with_link


async def next_of(generation: Generation) -> RequestOutput:
    return await generation.next_output()


def test_outputs_reach_the_generation_they_belong_to():
    async def check(client: EngineClient, link: EngineLink, arrived: list[Any]) -> None:
        link.send(Loading("weights"))
        link.send(READY)
        shown: list[str] = []
        assert await client.wait_ready(shown.append) == READY
        assert shown == ["weights"]
        routing = asyncio.create_task(client.route())
        first = client.submit((request("a"), request("b")))
        second = client.submit((request("c"),))
        ids = [RequestId(name) for name in "abcz"]
        link.send(news(*(RequestOutput(request_id=i, token_ids=(7,)) for i in reversed(ids))))
        assert [(await next_of(first)).request_id for _ in "ab"] == ["b", "a"]
        assert (await next_of(second)).token_ids == (7,)
        first.close()
        first.close()
        link.send(news(RequestOutput(request_id=ids[2], finish_reason=FinishReason.STOP)))
        assert (await next_of(second)).finish_reason is FinishReason.STOP
        second.close()
        while len(arrived) < 4:
            await asyncio.sleep(0.01)
        assert [type(m) for m in arrived] == [Submit, Submit, Abort, Abort]
        assert array("i", arrived[0].requests[0].prompt.packed).tolist() == [1, 2, 3]
        assert client.num_inflight == 0
        routing.cancel()

    with_link(check)


def test_a_lost_engine_ends_everything_in_flight():
    async def check(client: EngineClient, link: EngineLink, arrived: list[Any]) -> None:
        link.send(READY)
        await client.wait_ready(lambda _: None)
        assert client.is_available
        generations = [client.submit((request(name),)) for name in "abc"]
        link.send(Failed("out of luck", is_config=False))
        with pytest.raises(EngineLost, match="out of luck"):
            await client.route()
        client.lose("out of luck")
        for generation in generations:
            with pytest.raises(EngineLost, match="out of luck"):
                await generation.next_output()
        with pytest.raises(EngineLost):
            client.submit((request("d"),))
        assert not client.is_available
        assert client.num_inflight == 0

    with_link(check)


@pytest.mark.parametrize(("is_config", "kind"), [(True, ConfigError), (False, EngineLost)])
def test_a_failed_start_says_whose_fault_it_is(is_config: bool, kind: type[Exception]):
    async def check(client: EngineClient, link: EngineLink, arrived: list[Any]) -> None:
        link.send(Failed("too large", is_config=is_config))
        with pytest.raises(kind, match="too large"):
            await client.wait_ready(lambda _: None)

    with_link(check)


def test_what_cannot_be_sent_is_not_waited_for():
    """No engine takes the messages: the queue fills, and nothing leaks or breaks on the way out."""

    async def fill(folder: Path) -> None:
        client = EngineClient(folder, VirtualClock())
        generations: list[Generation] = []

        def submit_on() -> None:
            while len(generations) < 10_000:
                generations.append(client.submit((request(f"r{len(generations)}"),)))

        with pytest.raises(EngineLost, match="does not take"):
            submit_on()
        assert client.num_inflight == len(generations)
        for generation in generations:
            generation.close()
        assert client.num_inflight == 0
        client.close()

    with tempfile.TemporaryDirectory(prefix="okibi-") as folder:
        asyncio.run(fill(Path(folder)))


def test_a_lost_engine_takes_no_orders():
    async def check(client: EngineClient, link: EngineLink, arrived: list[Any]) -> None:
        client.drain()
        client.reset_prefix_cache()
        while len(arrived) < 2:
            await asyncio.sleep(0.01)
        assert arrived == [Drain(), ResetPrefixCache()]
        client.lose("gone")
        for order in (client.drain, client.reset_prefix_cache):
            with pytest.raises(EngineLost, match="gone"):
                order()

    with_link(check)


def test_a_client_that_leaves_while_the_engine_stands_still_is_told_of_later():
    async def check(folder: Path) -> None:
        arrived: list[Any] = []
        with closing(EngineClient(folder, VirtualClock(), max_queued=2)) as client:
            first, _ = client.submit((request("a"),)), client.submit((request("b"),))
            with pytest.raises(EngineLost, match="does not take"):
                client.submit((request("c"),))
            first.close()
            with closing(EngineLink(folder)) as link:
                link.receive_into(arrived.append, arrived.append)
                async with asyncio.timeout(20):
                    while len(arrived) < 3:
                        await asyncio.sleep(0.01)
        assert arrived[2] == Abort(RequestId("a"))

    with tempfile.TemporaryDirectory(prefix="okibi-") as folder:
        asyncio.run(check(Path(folder)))
