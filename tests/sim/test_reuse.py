"""What is computed once is not computed again: prefixes, fan-out, forks."""

from typing import Any

import pytest

from okibi.core.ids import RequestId
from okibi.core.messages import Abort
from okibi.core.output import FinishReason
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.records import RequestRecord
from tests.support.builders import make_layout, make_request, unique_ids
from tests.support.simulation import Simulation

PER_TOKEN_S = 0.001


def big_simulation(*, unit: int = 16, **config: Any) -> Simulation:
    """64K tokens of cache in pages of 32, one millisecond a token."""
    limits: dict[str, Any] = {"max_num_batched_tokens": 512, "max_num_seqs": 16}
    return Simulation(
        make_layout(num_pages=2048, block_tokens=32, unit=unit),
        cost_model=LinearCostModel(per_token_s=PER_TOKEN_S),
        **(limits | config),
    )


@pytest.mark.parametrize("unit", [4, 16, 32])
def test_a_change_in_the_prompt_costs_only_what_follows_it(unit):
    """One token differs at 900: reuse up to it, and the first branch stays (A03)."""
    sim = big_simulation(unit=unit)
    first = unique_ids("prompt", 4000)
    second = [*first[:900], first[900] + 1, *first[901:]]
    for start, (name, prompt) in enumerate([("r1", first), ("r2", second), ("r3", first)]):
        sim.submit(make_request(name, prompt), at=100.0 * start)
    sim.run()
    assert sim.cached("r1") == 0
    assert sim.cached("r2") == 900 // unit * unit
    assert sim.cached("r3") == 3999 // unit * unit


def fan_out(sim: Simulation, *, num_shared: int, num_unique: int, count: int) -> None:
    shared = unique_ids("shared", num_shared)
    for i in range(count):
        prompt = shared + unique_ids(f"own {i}", num_unique)
        sim.submit(make_request(f"r{i}", prompt, max_tokens=1))


@pytest.mark.parametrize("num_shared", [8000, 8010])
@pytest.mark.parametrize("max_inflight_steps", [1, 2])
def test_a_cold_prefix_asked_for_by_many_is_computed_once(num_shared, max_inflight_steps):
    """Eight requests arrive together (A05)."""
    sim = big_simulation(max_inflight_steps=max_inflight_steps)
    fan_out(sim, num_shared=num_shared, num_unique=200, count=8)
    sim.run()
    assert sim.counters.computed_tokens <= num_shared + 8 * 200 + 8 * 32
    assert all(len(sim.record(f"r{i}").token_ids) == 1 for i in range(8))


@pytest.mark.parametrize("max_inflight_steps", [1, 2])
def test_when_the_producer_of_a_prefix_dies_another_takes_over(max_inflight_steps):
    """The producer is cancelled half way; what it computed is not computed again (A05)."""
    sim = big_simulation(max_inflight_steps=max_inflight_steps)
    fan_out(sim, num_shared=8000, num_unique=200, count=8)
    sim.engine.send(Abort(RequestId("r0")), at=4000 * PER_TOKEN_S)
    sim.run()
    assert sim.record("r0").finish_reason is FinishReason.ABORT
    assert all(sim.record(f"r{i}").finish_reason is FinishReason.LENGTH for i in range(1, 8))
    steps_lost = 512 * max_inflight_steps
    assert sim.counters.computed_tokens <= 8000 + 8 * 200 + 8 * 32 + steps_lost


def test_waiting_for_a_prefix_is_not_slower_than_computing_it():
    sim = big_simulation()
    fan_out(sim, num_shared=8000, num_unique=200, count=8)
    sim.run()
    one_by_one = 8 * 8200 * PER_TOKEN_S
    assert max(sim.finish(f"r{i}") for i in range(8)) < one_by_one / 4


class Conversation:
    """A closed-loop client: each turn repeats all that was said and adds a little."""

    def __init__(self, sim: Simulation, name: str, opening: list[int]) -> None:
        self._sim = sim
        self._name = name
        self._prompt = opening
        self.turns: list[str] = []
        self.reusable: list[int] = []

    def say(self, *, at: float, num_new: int = 40) -> None:
        turn = f"{self._name}.{len(self.turns)}"
        self.reusable.append(len(self._prompt))
        self._prompt = self._prompt + unique_ids(turn, num_new)
        self.turns.append(turn)
        request = make_request(turn, self._prompt, max_tokens=20, conversation=self._name)
        self._sim.submit(request, at=at, on_finish=self._hear)

    def _hear(self, record: RequestRecord) -> None:
        self._prompt = self._prompt + record.token_ids


def test_children_do_not_overwrite_their_parent():
    """A parent and two forks take turns; every follow-up is almost all cached (A11)."""
    sim = big_simulation(max_num_batched_tokens=4096)
    root = unique_ids("parent", 30_000)
    parent = Conversation(sim, "parent", root)
    child_a = Conversation(sim, "a", root[:5000] + unique_ids("a", 8000))
    child_b = Conversation(sim, "b", root[:5000] + unique_ids("b", 8000))
    order = [parent, child_a, child_b, child_a, child_b, child_a, child_b, parent]
    for i, conversation in enumerate(order):
        sim.loop.at(100.0 * i, lambda now, speaker=conversation: speaker.say(at=now))
    sim.run()
    assert sim.cached("a.0") >= 5000 - 16
    assert sim.cached("b.0") >= 5000 - 16
    for conversation in (parent, child_a, child_b):
        for turn, reusable in list(zip(conversation.turns, conversation.reusable, strict=True))[1:]:
            assert sim.cached(turn) >= 0.95 * reusable
            assert sim.cached(turn) >= reusable - 1 - 16, "the reply is reused too"


@pytest.mark.parametrize("scheduling_policy", ["fcfs", "priority"])
@pytest.mark.parametrize("long_prefill_token_threshold", [0, 64])
@pytest.mark.parametrize("max_num_batched_tokens", [128, 4096])
def test_reuse_does_not_depend_on_policy(
    scheduling_policy, long_prefill_token_threshold, max_num_batched_tokens
):
    """The same sessions hit the same tokens however steps are cut (A15)."""
    sim = big_simulation(
        scheduling_policy=scheduling_policy,
        long_prefill_token_threshold=long_prefill_token_threshold,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    system = unique_ids("system", 500)
    sessions = [Conversation(sim, f"s{i}", system) for i in range(8)]
    for turn in range(4):
        for i, session in enumerate(sessions):
            when = 100.0 * turn + i
            sim.loop.at(when, lambda now, speaker=session: speaker.say(at=now, num_new=100))
    sim.run()
    # Seven sessions hit the system prompt; each later turn adds 100 tokens to 20 of reply.
    ideal = 7 * 500 + 8 * sum(500 + 120 * turn for turn in (1, 2, 3))
    assert 0.98 * ideal <= sim.counters.prefix_hit_tokens <= ideal
