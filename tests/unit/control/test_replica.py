"""The replica, fed by hand; `tests/property` feeds it at random."""

import pytest

from okibi.control.config import ReplicaConfig
from okibi.control.replica import Replica
from okibi.core.ids import RequestId
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.messages import Abort, Drain, Submit
from okibi.core.output import (
    FinishReason,
    RejectReason,
    RequestOutput,
    SampledRow,
    StepOutput,
)
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens
from okibi.kvcache.layout_solver import solve_layout


def make_replica(*, max_inflight_steps: int = 1) -> Replica:
    spec = FullAttentionSpec(layer=0, num_kv_heads=1, head_dim=8, dtype=KVDType.FLOAT32)
    layout = solve_layout([spec], block_tokens=4, prefix_match_unit=4, num_pages=32)
    config = ReplicaConfig(
        model_fingerprint="m",
        max_model_len=100,
        max_inflight_steps=max_inflight_steps,
        eos_token_ids=(0,),
    )
    return Replica(config, layout)


def submit(replica: Replica, name: str, num_prompt: int = 12) -> list[RequestOutput]:
    prompt = PackedTokens.of([ord(name), *range(1, num_prompt)])
    sampling = SamplingParams(max_tokens=8)
    request = Request(request_id=RequestId(name), prompt=prompt, sampling=sampling)
    return replica.on_message(Submit((request,)), 0.0)


def plan_of(replica: Replica) -> BatchPlan:
    plan = replica.next_plan(0.0)
    assert plan is not None
    return plan


def answer(replica: Replica, plan: BatchPlan, *, broken: str = "") -> list[RequestOutput]:
    rows = tuple(
        SampledRow(request_id=chunk.request_id, token_ids=(), error="not finite")
        if chunk.request_id == broken
        else SampledRow(request_id=chunk.request_id, token_ids=(7,))
        for chunk in plan.chunks
        if chunk.samples
    )
    return replica.on_step(StepOutput(step_id=plan.step_id, rows=rows), 0.0)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_broken_row_ends_its_request_alone_and_caches_nothing(depth: int) -> None:
    replica = make_replica(max_inflight_steps=depth)
    submit(replica, "a")
    submit(replica, "b")
    plans = [plan_of(replica) for _ in range(depth)]
    good, bad = answer(replica, plans[0], broken="b")
    assert (good.request_id, good.token_ids, good.finish_reason) == ("a", (7,), None)
    assert (bad.request_id, bad.finish_reason) == ("b", FinishReason.ERROR)
    for plan in plans[1:]:
        assert [output.request_id for output in answer(replica, plan)] == ["a"]
    replica.check_integrity()
    submit(replica, "b")
    retried = [chunk for chunk in plan_of(replica).chunks if chunk.request_id == "b"]
    assert retried[0].start == 0, "nothing of the broken request was cached"


def test_an_aborted_request_gives_its_pages_back_after_the_step_in_flight() -> None:
    replica = make_replica()
    submit(replica, "a")
    plan = plan_of(replica)
    (output,) = replica.on_message(Abort(RequestId("a")), 0.0)
    assert output.finish_reason is FinishReason.ABORT
    assert replica.stats().pool.num_in_use == 3
    assert answer(replica, plan) == []
    assert replica.stats().pool.num_in_use == 0
    assert not replica.has_work()
    assert replica.on_message(Abort(RequestId("a")), 0.0) == [], "unknown by now"


def test_one_id_runs_once() -> None:
    replica = make_replica()
    submit(replica, "a")
    (output,) = submit(replica, "a")
    assert output.rejection is not None
    assert output.rejection.reason is RejectReason.INVALID


def test_a_draining_replica_finishes_what_it_has_and_takes_no_more() -> None:
    replica = make_replica()
    submit(replica, "a")
    replica.on_message(Drain(), 0.0)
    (output,) = submit(replica, "b")
    assert output.rejection is not None
    assert output.rejection.reason is RejectReason.DRAINING
    while replica.has_work():
        answer(replica, plan_of(replica))
    assert replica.stats().counters.finished[FinishReason.LENGTH] == 1


def test_outputs_out_of_order_are_refused() -> None:
    replica = make_replica(max_inflight_steps=2)
    submit(replica, "a")
    plan_of(replica)
    second = plan_of(replica)
    with pytest.raises(ValueError, match="expected"):
        answer(replica, second)
