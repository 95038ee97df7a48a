"""The virtual-time engine itself: closed loops, shared loops, long simulated turns."""

import pytest

from okibi.core.ids import RequestId
from okibi.core.messages import Abort
from okibi.core.output import FinishReason
from okibi.core.token_source import SegmentTokens
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.event_loop import EventLoop
from okibi.sim.records import RequestRecord
from tests.support.builders import make_layout, make_request
from tests.support.simulation import Simulation


def test_a_closed_loop_client_waits_for_its_answer():
    """Turn k+1 starts a think time after turn k ended, however slow the engine is (A59)."""
    sim = Simulation(cost_model=LinearCostModel(base_s=3.0))

    def next_turn(record: RequestRecord) -> None:
        turn = len(sim.engine.records)
        if turn < 4:
            assert record.finish_s is not None
            request = make_request(f"turn{turn}", 8, max_tokens=2)
            sim.submit(request, at=record.finish_s + 0.5, on_finish=next_turn)

    sim.submit(make_request("turn0", 8, max_tokens=2), on_finish=next_turn)
    sim.run()
    assert [sim.record(f"turn{i}").arrival_s for i in range(4)] == [0.0, 6.5, 13.0, 19.5]


def test_engines_on_one_loop_do_not_disturb_each_other():
    def arrivals(sim: Simulation, names: str) -> None:
        for i, name in enumerate(names):
            sim.submit(make_request(name, 40, max_tokens=5), at=0.7 * i)

    def times(sim: Simulation, names: str) -> list[list[float]]:
        return [sim.record(name).token_times_s for name in names]

    loop = EventLoop()
    together = [Simulation(loop=loop), Simulation(loop=loop, max_num_batched_tokens=16)]
    alone = [Simulation(), Simulation(max_num_batched_tokens=16)]
    for sims in (together, alone):
        arrivals(sims[0], "abc")
        arrivals(sims[1], "de")
        for sim in sims:
            sim.run()
    assert times(together[0], "abc") == times(alone[0], "abc")
    assert times(together[1], "de") == times(alone[1], "de")


@pytest.mark.parametrize("max_inflight_steps", [1, 2])
def test_an_abort_ends_a_request_at_once(max_inflight_steps):
    sim = Simulation(max_inflight_steps=max_inflight_steps)
    sim.submit(make_request("r", 8, max_tokens=50))
    sim.engine.send(Abort(RequestId("r")), at=10.5)
    sim.run()
    record = sim.record("r")
    assert (record.finish_reason, record.finish_s) == (FinishReason.ABORT, 10.5)
    assert len(record.token_ids) == 10


def test_long_sessions_need_no_token_ids():
    """Forty turns up to 142,000 tokens are a few segments each, and almost all cached."""
    sim = Simulation(
        make_layout(num_pages=10_000, block_tokens=16),
        has_ids=False,
        max_num_batched_tokens=8192,
        max_num_queued_tokens=10_000_000,
    )
    segments = list(enumerate([40_000] + [2615] * 39))
    prompts = [SegmentTokens(segments[: turn + 1]) for turn in range(40)]
    assert len(prompts[-1]) == 141_985
    for turn, prompt in enumerate(prompts):
        request = make_request(f"t{turn}", prompt, max_tokens=3, conversation="session")
        sim.submit(request, at=100.0 * turn)
    sim.run()
    for turn in range(1, 40):
        reusable = 40_000 + 2615 * (turn - 1)
        assert sim.cached(f"t{turn}") == reusable // 16 * 16


def test_zero_cost_steps_do_not_stop_time():
    sim = Simulation(cost_model=LinearCostModel())
    sim.submit(make_request("r", 100, max_tokens=9), at=5.0)
    sim.run()
    assert sim.finish("r") == 5.0


@pytest.mark.parametrize("max_inflight_steps", [1, 2])
def test_times_do_not_depend_on_which_executor_prices_them(max_inflight_steps):
    """Prompts without common parts: the tokens differ, the schedule may not."""
    cost = LinearCostModel(base_s=0.5, per_token_s=0.01, per_context_token_s=0.001)
    sims = [
        Simulation(
            make_layout(num_pages=24, block_tokens=4),
            cost_model=cost,
            has_ids=is_checked,
            max_inflight_steps=max_inflight_steps,
        )
        for is_checked in (True, False)
    ]
    for sim in sims:
        for i in range(6):
            sim.submit(make_request(f"r{i}", 20 + i, max_tokens=20), at=1.3 * i)
        sim.run()
    checked, simulated = sims
    assert checked.counters == simulated.counters
    assert checked.counters.num_preemptions > 0
    for i in range(6):
        assert checked.record(f"r{i}").token_times_s == simulated.record(f"r{i}").token_times_s
