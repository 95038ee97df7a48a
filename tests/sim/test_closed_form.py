"""Cases whose times can be worked out by hand, at either depth."""

import pytest

from okibi.core.output import FinishReason
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.fake_model import FakeModel
from tests.support.builders import make_layout, make_request, prompt_ids
from tests.support.simulation import Simulation

DEPTHS = pytest.mark.parametrize("max_inflight_steps", [1, 2])


@DEPTHS
@pytest.mark.parametrize(("num_prompt", "num_steps"), [(1, 1), (32, 1), (33, 2), (100, 4)])
def test_time_to_first_token_is_the_steps_of_the_prompt(max_inflight_steps, num_prompt, num_steps):
    sim = Simulation(max_num_batched_tokens=32, max_inflight_steps=max_inflight_steps)
    sim.submit(make_request("r", num_prompt, max_tokens=5), at=7.0)
    sim.run()
    record = sim.record("r")
    assert record.ttft_s == num_steps
    assert record.gaps_s == [1.0] * 4
    assert record.finish_reason is FinishReason.LENGTH


@DEPTHS
def test_every_part_of_the_cost_is_charged(max_inflight_steps):
    cost = LinearCostModel(
        base_s=1000.0, per_token_s=10.0, per_context_token_s=0.125, per_row_s=0.5
    )
    sim = Simulation(
        cost_model=cost, max_num_batched_tokens=32, max_inflight_steps=max_inflight_steps
    )
    sim.submit(make_request("r", 40, max_tokens=2))
    sim.run()
    attended = 40 * 41 // 2
    assert sim.record("r").ttft_s == 2000.0 + 400.0 + attended * 0.125 + 0.5
    assert sim.record("r").gaps_s == [1000.0 + 10.0 + 41 * 0.125 + 0.5]


@DEPTHS
def test_a_threshold_caps_the_tokens_of_one_prompt_in_a_step(max_inflight_steps):
    sim = Simulation(
        max_num_batched_tokens=32,
        long_prefill_token_threshold=10,
        max_inflight_steps=max_inflight_steps,
    )
    sim.submit(make_request("r", 100, max_tokens=1))
    sim.run()
    assert sim.record("r").ttft_s == 10.0
    assert all(chunk.num_tokens <= 10 for plan in sim.plans for chunk in plan.chunks)


def test_a_threshold_lets_prompts_share_a_step():
    def ttfts(threshold: int) -> list[float]:
        sim = Simulation(max_num_batched_tokens=30, long_prefill_token_threshold=threshold)
        for name in "abc":
            sim.submit(make_request(name, 60, max_tokens=1))
        sim.run()
        return [sim.record(name).ttft_s for name in "abc"]

    assert ttfts(10) == [6.0, 6.0, 6.0]
    assert ttfts(0) == [2.0, 4.0, 6.0]


def test_decodes_go_on_beside_a_prompt():
    sim = Simulation(max_num_batched_tokens=32)
    sim.submit(make_request("stream", 8, max_tokens=20))
    sim.submit(make_request("prompt", 93, max_tokens=1), at=4.0)
    sim.run()
    assert set(sim.record("stream").gaps_s) == {1.0}
    assert sim.record("prompt").ttft_s == 3.0, "31 tokens a step beside the stream"


@DEPTHS
@pytest.mark.parametrize(
    ("policy", "order"), [("fcfs", ["a", "b", "c", "d"]), ("priority", ["a", "c", "b", "d"])]
)
def test_who_waits_is_served_in_the_order_of_the_policy(max_inflight_steps, policy, order):
    """One place; `a` has it already when `c`, the most urgent, arrives. Ties go by arrival."""
    sim = Simulation(
        scheduling_policy=policy, max_num_seqs=1, max_inflight_steps=max_inflight_steps
    )
    for i, (name, priority) in enumerate([("a", 5), ("b", 1), ("c", 0), ("d", 1)]):
        sim.submit(make_request(name, 8, max_tokens=6, priority=priority), at=0.1 * i)
    sim.run()
    assert sorted("abcd", key=sim.finish) == order


@DEPTHS
@pytest.mark.parametrize(("policy", "victim"), [("fcfs", "late"), ("priority", "early")])
def test_a_full_pool_preempts_who_was_served_last(max_inflight_steps, policy, victim):
    """Both fit when they start and neither when they have grown; all tokens stay right."""
    sim = Simulation(
        make_layout(num_pages=12, block_tokens=4),
        scheduling_policy=policy,
        max_inflight_steps=max_inflight_steps,
    )
    requests = {
        "early": make_request("early", 8, max_tokens=24, priority=1),
        "late": make_request("late", 8, max_tokens=24, priority=0),
    }
    for request in requests.values():
        sim.submit(request)
    sim.run()
    assert sim.counters.num_preemptions >= 1
    survivor = next(name for name in requests if name != victim)
    assert sim.finish(survivor) < sim.finish(victim)
    assert max(sim.record(survivor).gaps_s) == 1.0, "who stays is not slowed down"
    for name, request in requests.items():
        expected = FakeModel().generate(prompt_ids(request), request.sampling)
        assert sim.record(name).token_ids == expected


@DEPTHS
def test_a_preempted_request_hits_its_own_prefix_again(max_inflight_steps):
    sim = Simulation(
        make_layout(num_pages=12, block_tokens=4), max_inflight_steps=max_inflight_steps
    )
    for name in ("early", "late"):
        sim.submit(make_request(name, 8, max_tokens=24))
    sim.run()
    admissions = [a.request_id for plan in sim.plans for a in plan.admitted]
    assert admissions.count(make_request("late", 1).request_id) == 2
    restart = next(
        chunk
        for plan in sim.plans[1:]
        if any(a.request_id == "late" for a in plan.admitted)
        for chunk in plan.chunks
        if chunk.request_id == "late"
    )
    assert restart.start >= 4
    assert sim.record("late").num_cached_tokens == 0, "its first start was cold"
