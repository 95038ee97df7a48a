"""Any schedule yields what the model says alone, and no page is lost on the way.

A hypothesis state machine sends random work to a `Replica` whose plans a `CheckingExecutor`
holds against a shadow of every page. Pools are small, so that requests hit, fork, preempt and
evict each other, in one group of layers or in several. The oracle of every output is the fake model
run from scratch.
"""

from collections.abc import Sequence

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from okibi.control.config import ReplicaConfig
from okibi.control.replica import Replica
from okibi.core.ids import RequestId
from okibi.core.messages import Drain, ResetPrefixCache
from okibi.core.output import FinishReason, RejectReason, RequestOutput
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.sim.checking import CheckingExecutor
from okibi.sim.fake_model import FakeModel
from tests.support.builders import (
    make_config,
    make_grouped_layout,
    make_request,
    prompt_ids,
    unique_ids,
)
from tests.support.lockstep import LockstepDriver

pytestmark = pytest.mark.timeout(7200)  # the long lane searches for an hour

EOS = 5
VOCAB_SIZE = 64
Shapes = tuple[tuple[int, int], ...]
"""(block_tokens, pages_per_block) of each group."""

ONE_GROUP: list[tuple[Shapes, int]] = [
    (((block_tokens, 1),), unit)
    for block_tokens, unit in [(4, 1), (4, 2), (4, 4), (8, 2), (8, 8), (16, 4), (32, 8)]
]
"""With the prefix match unit."""

SEVERAL_GROUPS: list[tuple[Shapes, int]] = [
    (((4, 1), (8, 1)), 2),
    (((8, 1), (32, 1)), 8),
    (((4, 1), (6, 1)), 1),
    (((4, 2),), 2),
    (((8, 1), (4, 2)), 4),
    (((4, 3), (4, 1), (12, 2)), 2),
]
"""Several groups, blocks of several pages, and both."""

SALTS = ["", "", "", "tenant"]


@st.composite
def configs(draw: st.DrawFn) -> ReplicaConfig:
    max_num_seqs = draw(st.integers(1, 6))
    budget = draw(st.integers(max(2, max_num_seqs), 40))
    return make_config(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, budget // 2])),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
        max_inflight_steps=draw(st.sampled_from([1, 2])),
        max_num_queued=draw(st.sampled_from([2, 8])),
        eos_token_ids=(EOS,),
    )


@st.composite
def samplings(draw: st.DrawFn) -> SamplingParams:
    max_tokens = draw(st.integers(1, 60))
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=draw(st.sampled_from([0, 0, max_tokens // 2])),
        temperature=draw(st.sampled_from([0.0, 1.0])),
        seed=draw(st.integers(0, 3)),
        presence_penalty=draw(st.sampled_from([0.0, 0.5])),
        ignore_eos=draw(st.booleans()),
        stop_token_ids=draw(st.sampled_from([(), (9, 10, 11)])),
        logprobs=draw(st.sampled_from([None, 2])),
    )


def starting_with(granularities: list[tuple[Shapes, int]]):
    """Makes `ReplicaMachine.start` the first rule of a machine."""
    return initialize(
        config=configs(),
        granularity=st.sampled_from(granularities),
        num_blocks=st.integers(3, 20),
        eos_probability=st.sampled_from([0.0, 0.02]),
    )


class ReplicaMachine(RuleBasedStateMachine):
    """One replica under random messages and steps."""

    def start(
        self,
        config: ReplicaConfig,
        granularity: tuple[Shapes, int],
        num_blocks: int,
        eos_probability: float,
    ) -> None:
        shapes, unit = granularity
        num_pages = num_blocks * sum(pages_per_block for _, pages_per_block in shapes)
        layout = make_grouped_layout(*shapes, num_pages=num_pages, unit=unit)
        self.unit = unit
        self.config = config
        self.num_pages = num_pages
        self.model = FakeModel(
            vocab_size=VOCAB_SIZE, eos_token_id=EOS, eos_probability=eos_probability
        )
        self.replica = Replica(config, layout)
        self.executor = CheckingExecutor(
            model=self.model, max_inflight_steps=config.max_inflight_steps
        )
        self.executor.allocate(layout)
        self.driver = LockstepDriver(
            self.replica, self.executor, max_inflight_steps=config.max_inflight_steps
        )
        self.requests: dict[RequestId, Request] = {}
        self.unfinished: dict[RequestId, None] = {}

    # -- rules -----------------------------------------------------------------------------

    @rule(
        share=st.floats(0.0, 1.02),
        root=st.integers(0, 2),
        sampling=samplings(),
        salt=st.sampled_from(SALTS),
        priority=st.integers(0, 2),
        num_choices=st.sampled_from([1, 1, 1, 2, 3]),
    )
    def submit(
        self,
        share: float,
        root: int,
        sampling: SamplingParams,
        salt: str,
        priority: int,
        num_choices: int,
    ) -> None:
        """One of few documents, cut somewhere."""
        room = self.replica.max_model_len - sampling.max_tokens
        length = max(1, int(share * room))
        prompt = unique_ids(f"root {root}", length)
        self._submit(prompt, sampling, salt, priority, num_choices)

    @precondition(lambda self: self.requests)
    @rule(
        data=st.data(),
        keep=st.floats(0.0, 1.0),
        num_new=st.integers(0, 9),
        sampling=samplings(),
        priority=st.integers(0, 2),
    )
    def fork(
        self,
        data: st.DataObject,
        keep: float,
        num_new: int,
        sampling: SamplingParams,
        priority: int,
    ) -> None:
        """The next turn of an earlier conversation, or a branch from within it."""
        parent = data.draw(st.sampled_from(list(self.requests.values())))
        history = prompt_ids(parent) + self.driver.tokens(parent.request_id)
        kept = history if keep > 0.5 else history[: int(2 * keep * len(history))]
        new = unique_ids(f"new {len(self.requests)}", num_new)
        prompt = (kept + new) or [1]
        self._submit(prompt, sampling, parent.cache_salt, priority, 1, conversation="chat")

    @rule(count=st.integers(1, 20))
    def step(self, count: int) -> None:
        for _ in range(count):
            for output in self.driver.step():
                self._check_output(output)
            self._check_pages()

    @precondition(lambda self: len(self.unfinished) > 2)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(list(self.unfinished)))
        (output,) = self.driver.abort(request_id)
        assert output.finish_reason is FinishReason.ABORT
        self._check_output(output)
        assert self.driver.abort(request_id) == [], "a second abort is ignored"

    @precondition(lambda self: self.replica.stats().pool.num_evictable > 4)
    @rule()
    def reset_prefix_cache(self) -> None:
        self.driver.send(ResetPrefixCache())
        assert self.replica.stats().pool.num_evictable == 0

    # -- oracles ---------------------------------------------------------------------------

    @invariant()
    def pages_are_conserved(self) -> None:
        self._check_pages()

    @invariant()
    def no_request_is_lost(self) -> None:
        stats = self.replica.stats()
        assert len(self.unfinished) <= stats.num_running + stats.num_waiting
        assert stats.num_running <= self.config.max_num_seqs
        assert self.replica.has_work() or not self.unfinished

    def teardown(self) -> None:
        if not hasattr(self, "driver") or not self.driver.is_sound:
            return
        self.driver.send(Drain())
        (refusal,) = self.driver.submit(make_request("late", 1, max_tokens=1))
        assert refusal.rejection is not None
        assert refusal.rejection.reason is RejectReason.DRAINING
        while self.replica.has_work():
            self.step(1)
        self._check_baseline()

    def _check_pages(self) -> None:
        self.replica.check_integrity()
        pool = self.replica.stats().pool
        assert pool.num_free + pool.num_evictable + pool.num_in_use == pool.num_pages
        assert min(pool.num_free, pool.num_evictable, pool.num_in_use) >= 0

    def _check_baseline(self) -> None:
        assert not self.unfinished
        stats = self.replica.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_waiting_tokens) == (0, 0, 0)
        assert stats.pool.num_in_use == 0
        self.driver.send(ResetPrefixCache())
        assert self.replica.stats().pool.num_free == self.num_pages

    def _submit(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        salt: str,
        priority: int,
        num_choices: int,
        *,
        conversation: str = "",
    ) -> None:
        requests = tuple(
            make_request(
                f"r{len(self.requests)}.{choice}",
                prompt,
                sampling=sampling,
                cache_salt=salt,
                priority=priority,
                conversation=conversation,
            )
            for choice in range(num_choices)
        )
        for request in requests:
            self.executor.expect(request)
        outputs = self.driver.submit(*requests)
        assert [output.request_id for output in outputs] == [r.request_id for r in requests]
        if outputs[0].rejection is not None:
            self._check_rejection(requests, outputs)
            return
        for request, output in zip(requests, outputs, strict=True):
            assert (output.token_ids, output.finish_reason) == ((), None), "not an acknowledgement"
            self.requests[request.request_id] = request
            self.unfinished[request.request_id] = None

    def _check_rejection(self, requests: tuple[Request, ...], outputs: list[RequestOutput]) -> None:
        reasons = {output.rejection.reason for output in outputs if output.rejection}
        assert [output.finish_reason for output in outputs] == [FinishReason.REJECTED] * len(
            outputs
        )
        longest = len(requests[0].prompt) + requests[0].sampling.max_tokens
        if reasons == {RejectReason.CONTEXT_LENGTH_EXCEEDED}:
            assert longest > self.replica.max_model_len
            return
        assert reasons == {RejectReason.QUEUE_FULL}
        room = self.config.max_num_seqs + self.config.max_num_queued - len(self.unfinished)
        assert len(requests) > room

    def _check_output(self, output: RequestOutput) -> None:
        request = self.requests[output.request_id]
        assert output.request_id in self.unfinished, "an output after the last one"
        generated = self.driver.tokens(output.request_id)
        expected = self._expected(request)
        note(f"{output.request_id}: {generated} of {expected}")
        assert generated == expected[: len(generated)]
        self._check_cached_tokens(request, output)
        if output.finish_reason is None:
            assert output.token_ids
            return
        del self.unfinished[output.request_id]
        if output.finish_reason is not FinishReason.ABORT:
            assert generated == expected
            is_stopped = expected[-1] in self._stop_ids(request)
            assert output.finish_reason is (
                FinishReason.STOP if is_stopped else FinishReason.LENGTH
            )

    def _check_cached_tokens(self, request: Request, output: RequestOutput) -> None:
        if not output.token_ids:
            return
        num_cached = output.num_cached_tokens
        assert num_cached is not None
        assert 0 <= num_cached < len(request.prompt)
        assert num_cached % self.unit == 0

    def _stop_ids(self, request: Request) -> tuple[int, ...]:
        eos = () if request.sampling.ignore_eos else (EOS,)
        return (*eos, *request.sampling.stop_token_ids)

    def _expected(self, request: Request) -> list[int]:
        return self.model.generate(
            prompt_ids(request),
            request.sampling,
            stop_ids=self._stop_ids(request),
            cache_salt=request.cache_salt,
        )


class OneGroupMachine(ReplicaMachine):
    start = starting_with(ONE_GROUP)(ReplicaMachine.start)


class SeveralGroupsMachine(ReplicaMachine):
    start = starting_with(SEVERAL_GROUPS)(ReplicaMachine.start)


TestReplica = OneGroupMachine.TestCase
TestReplicaOfSeveralGroups = SeveralGroupsMachine.TestCase
