"""Nobody freezes the others: long prompts, short prompts and streams side by side (A12)."""

import pytest

from okibi.core.request import Request
from okibi.core.token_source import SegmentTokens
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.records import RequestRecord
from tests.support.builders import make_layout, make_request
from tests.support.simulation import Simulation

BUDGET = 2048
COST = LinearCostModel(base_s=0.01, per_token_s=0.0001)
SLICE_S = COST.base_s + BUDGET * COST.per_token_s
GAP_S = COST.base_s + COST.per_token_s
EPSILON_S = 1e-9


def segment(name: str, length: int, *, max_tokens: int, content: int) -> Request:
    return make_request(name, SegmentTokens([(content, length)]), max_tokens=max_tokens)


def simulation(**config) -> Simulation:
    return Simulation(
        make_layout(num_pages=10_000, block_tokens=16),
        cost_model=COST,
        has_ids=False,
        max_num_batched_tokens=BUDGET,
        max_num_seqs=32,
        **config,
    )


def long_prompt() -> Request:
    return segment("long", 100_000, max_tokens=4, content=1)


def solo_s(**config) -> float:
    sim = simulation(**config)
    sim.submit(long_prompt())
    sim.run()
    return sim.finish("long")


@pytest.mark.parametrize("max_inflight_steps", [1, 2])
def test_a_long_prompt_freezes_neither_streams_nor_short_prompts(max_inflight_steps):
    sim = simulation(max_inflight_steps=max_inflight_steps)
    sim.submit(segment("victim", 64, max_tokens=1000, content=2))
    sim.submit(long_prompt(), at=2.0)
    sim.submit(segment("short", 100, max_tokens=4, content=3), at=3.0)
    sim.run()
    victim, short = sim.record("victim"), sim.record("short")
    assert max(victim.gaps_s) <= GAP_S + SLICE_S + EPSILON_S
    assert short.ttft_s <= 3 * SLICE_S + EPSILON_S
    long = sim.record("long")
    assert sim.finish("long") - long.arrival_s <= 1.25 * solo_s()


def test_a_threshold_makes_the_slices_of_long_prompts_smaller():
    def max_gap(**config) -> float:
        sim = simulation(**config)
        sim.submit(segment("victim", 64, max_tokens=300, content=2))
        sim.submit(long_prompt(), at=1.0)
        sim.run()
        return max(sim.record("victim").gaps_s)

    small = COST.base_s + (256 + 1) * COST.per_token_s
    assert max_gap() == pytest.approx(SLICE_S)
    assert max_gap(long_prefill_token_threshold=256) == pytest.approx(small)


def test_a_flood_of_short_prompts_does_not_starve_a_long_one():
    """Closed loop: 16 clients send a new short prompt as soon as the last one is answered."""
    sim = simulation()
    sim.submit(long_prompt())
    count = 0

    def next_prompt(record: RequestRecord | None = None) -> None:
        nonlocal count
        if count < 3000:
            count += 1
            now = sim.loop.now()
            request = segment(f"s{count}", 400, max_tokens=1, content=100 + count)
            sim.submit(request, at=now, on_finish=next_prompt)

    for _ in range(16):
        sim.loop.at(0.5, lambda now: next_prompt())
    sim.run()
    assert sim.finish("long") <= 2.3 * solo_s()
    served_meanwhile = sum(
        r.finish_s is not None and r.finish_s < sim.finish("long")
        for r in sim.engine.records.values()
    )
    assert served_meanwhile > 50, "the flood was there"


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_short_prompt_overtakes_only_prompts_that_are_not_more_urgent(policy):
    sim = Simulation(scheduling_policy=policy, max_num_batched_tokens=32)
    sim.submit(make_request("long", 96, max_tokens=1, priority=0))
    sim.submit(make_request("short", 8, max_tokens=1, priority=1))
    sim.run()
    overtakes = sim.finish("short") < sim.finish("long")
    assert overtakes == (policy == "fcfs")
