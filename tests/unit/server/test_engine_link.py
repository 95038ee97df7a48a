"""The link to the engine and the loop behind it, without HTTP."""

import asyncio
import tempfile
import threading
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from okibi.core.clock import VirtualClock, WallClock
from okibi.core.errors import ConfigError, ExecutorError
from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Drain, ResetPrefixCache, Submit
from okibi.core.output import (
    FinishReason,
    Rejection,
    RejectReason,
    RequestOutput,
    StepOutput,
    TokenLogprobs,
)
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens, SegmentTokens
from okibi.server.engine_client import EngineClient, EngineLost, Generation
from okibi.server.engine_link import EngineLink, LinkError, message_address
from okibi.server.engine_protocol import (
    Failed,
    Loading,
    News,
    Ready,
    decode_event,
    decode_message,
    encode_event,
    encode_message,
)
from okibi.server.live_driver import LiveDriver
from okibi.server.step_thread import StepThread
from okibi.sim.checking import CheckingExecutor
from okibi.sim.fake_model import FakeModel
from tests.support.builders import greedy, make_layout, make_replica

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


# -- encoding ----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 2**31 - 1), max_size=20),
    st.builds(
        SamplingParams,
        max_tokens=st.integers(1, 10**6),
        temperature=st.floats(0, 100),
        logit_bias=st.lists(st.tuples(st.integers(0, 10**6), st.floats(-100, 100))).map(tuple),
        seed=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        stop_token_ids=st.lists(st.integers(0, 10**6)).map(tuple),
        logprobs=st.none() | st.integers(0, 20),
    ),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=10),
)
def test_messages_arrive_as_they_were_sent(
    prompt: list[int], sampling: SamplingParams, priority: int, salt: str
):
    sent = request("é", tuple(prompt), sampling=sampling, priority=priority, cache_salt=salt)
    for message in (Submit((sent, request())), Abort(RequestId("x")), Drain(), ResetPrefixCache()):
        assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "event",
    [
        Loading("weights"),
        READY,
        Failed("no memory", is_config=True),
        News(
            (
                RequestOutput(request_id=RequestId("a")),
                RequestOutput(
                    request_id=RequestId("b"),
                    token_ids=(5, 6),
                    logprobs=(TokenLogprobs(token_id=5, logprob=-0.5, top=((5, -0.5), (7, -1.0))),),
                    finish_reason=FinishReason.LENGTH,
                    num_cached_tokens=12,
                ),
                RequestOutput(
                    request_id=RequestId("c"),
                    finish_reason=FinishReason.REJECTED,
                    rejection=Rejection(reason=RejectReason.QUEUE_FULL, message="busy"),
                ),
            ),
            make_replica().stats(),
        ),
    ],
)
def test_events_arrive_as_they_were_sent(event: Any):
    assert decode_event(encode_event(event)) == event


def test_prompts_without_ids_cannot_be_sent():
    segments = Request(request_id=RequestId("s"), prompt=SegmentTokens([(1, 5)]), sampling=greedy())
    with pytest.raises(TypeError):
        encode_message(Submit((segments,)))


@given(st.binary(max_size=60))
def test_noise_is_a_decode_error_and_nothing_else(noise: bytes):
    for decode in (decode_message, decode_event):
        with pytest.raises(msgspec.DecodeError):
            decode(noise)


@given(st.data())
def test_a_damaged_frame_is_refused_or_is_another_whole_message(data: st.DataObject):
    frame = bytearray(encode_message(Submit((request(),))))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = decode_message(bytes(frame))
    except msgspec.DecodeError:
        return
    assert decode_message(encode_message(message)) == message


# -- the driver --------------------------------------------------------------------------------


class Served:
    """A driver on a thread, and what it emits."""

    def __init__(self, depth: int = 1) -> None:
        layout = make_layout(num_pages=64)
        self.executor = CheckingExecutor()
        self.executor.allocate(layout)
        self.replica = make_replica(layout, max_inflight_steps=depth)
        self.outputs: list[RequestOutput] = []
        self._changed = threading.Condition()
        self.driver = LiveDriver(self.replica, self.executor, WallClock(), self._emit)
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.driver.run()
        except Exception as error:  # noqa: BLE001
            self.failure = error

    def _emit(self, outputs: Any, stats: Any) -> None:
        with self._changed:
            self.outputs.extend(outputs)
            self._changed.notify_all()

    def wait(self, check: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(check, 10)

    def finished(self) -> dict[str, list[int]]:
        done = {o.request_id for o in self.outputs if o.finish_reason}
        return {
            name: [t for o in self.outputs if o.request_id == name for t in o.token_ids]
            for name in done
        }

    def stop(self) -> None:
        self.driver.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("depth", [1, 2])
def test_the_driver_serves_what_the_model_says(depth: int):
    served = Served(depth)
    prompts = {f"r{i}": tuple(range(i, i + 20)) for i in range(12)}
    for name, prompt in prompts.items():
        served.driver.post(Submit((request(name, prompt, sampling=greedy(9)),)))
    served.wait(lambda: len(served.finished()) == len(prompts))
    served.stop()
    expected = {name: FakeModel().generate(prompt, greedy(9)) for name, prompt in prompts.items()}
    assert served.finished() == expected
    assert not served.replica.has_work()
    served.replica.check_integrity()


def test_an_abort_comes_through_between_steps():
    served = Served()
    served.driver.post(Submit((request("long", sampling=greedy(200)),)))
    served.wait(lambda: len(served.outputs) > 3)
    served.driver.post(Abort(RequestId("long")))
    served.wait(lambda: bool(served.finished()))
    served.stop()
    assert served.outputs[-1].finish_reason is FinishReason.ABORT


def test_a_broken_step_ends_the_driver():
    served = Served()
    served.executor.close()
    served.driver.post(Submit((request(),)))
    served._thread.join(10)
    assert isinstance(served.failure, ExecutorError)


def test_the_step_thread_finishes_what_was_submitted():
    replica, layout = make_replica(max_inflight_steps=2), make_layout()
    executor = CheckingExecutor()
    executor.allocate(layout)
    outputs: list[StepOutput] = []
    steps = StepThread(executor, outputs.append, lambda error: pytest.fail(str(error)))
    replica.on_message(Submit((request(),)), 0.0)
    while (plan := replica.next_plan(0.0)) is not None:
        steps.submit(plan)
    steps.close()
    assert [output.step_id for output in outputs] == [0, 1]
    with pytest.raises(ExecutorError):
        executor.collect()


# -- the client --------------------------------------------------------------------------------


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


def test_a_frame_that_is_no_message_ends_the_engine():
    served = Served()
    with tempfile.TemporaryDirectory(prefix="okibi-") as name, zmq.Context() as context:
        link = EngineLink(Path(name))
        link.receive_into(served.driver.post, served.driver.fail)
        with context.socket(zmq.PUSH) as stranger:
            stranger.connect(message_address(Path(name)))
            stranger.send(b"nonsense")
            served._thread.join(10)
        link.close()
    assert isinstance(served.failure, LinkError)
