"""The frames of the link, the loop behind it and the engine's end, without HTTP."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from okibi.core.clock import WallClock
from okibi.core.errors import ExecutorError
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
from okibi.core.token_source import SegmentTokens
from okibi.server.engine_link import EngineLink, LinkError, message_address
from okibi.server.engine_protocol import (
    Failed,
    Loading,
    News,
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
from tests.support.link import READY, request

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
