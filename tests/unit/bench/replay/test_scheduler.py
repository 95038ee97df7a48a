import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.replay.scheduler import ReplayConfig
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.tree import SessionTree, build_tree
from okibi.core.errors import ConfigError
from tests.unit.bench.replay.simulation import Played, play
from tests.unit.bench.traces import call, demo_trace, subagent, trace

NO_CAPS = ReplayConfig(concurrency=2, idle_cap_s=None, tree_idle_cap_s=None)
BUSY = SyntheticConfig(fork_probability=0.4, subagent_probability=0.4)
TREES = [build_tree(generate_trace(BUSY, index)) for index in range(6)]


def changed(**changes) -> ReplayConfig:
    return dataclasses.replace(NO_CAPS, **changes)


def names(played: list[Played]) -> list[str]:
    return [f"{p.dispatch.node.conversation}.{p.dispatch.node.turn}" for p in played]


def check_waits(played: list[Played], time_scale: float = 1.0) -> None:
    """No request started before every end it waits for plus its gap."""
    ends = {p.key: p.end for p in played}
    for p in played:
        for edge in p.dispatch.node.after:
            before = ends[p.dispatch.live.play, edge.before]
            assert p.start >= before + edge.gap_s * time_scale - 1e-9


def test_the_demo_session_is_played_in_its_order():
    played, scheduler = play([build_tree(demo_trace())], NO_CAPS, lambda _: 0.4)
    assert names(played) == [
        "demo.0",
        "demo.1",
        "demo::sa:agent_001.0",
        "demo::sa:agent_001.1",
        "demo.2",
        "demo.3",
    ]
    assert [round(p.start - 100.0, 6) for p in played] == [0.0, 1.0, 1.5, 2.2, 3.0, 4.0]
    assert scheduler.stop_reason is None


def test_the_parent_is_held_by_a_slow_subagent():
    slow, _ = play([build_tree(demo_trace())], NO_CAPS, lambda number: 60.0 if number == 3 else 0.1)
    assert names(slow)[3:5] == ["demo::sa:agent_001.1", "demo.2"]
    assert slow[4].start == slow[3].end


@given(
    st.lists(st.floats(0.0, 30.0), min_size=1, max_size=40),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3, 1.0, 2.0]),
)
def test_nothing_starts_before_what_it_waits_for(times, concurrency, time_scale):
    config = changed(concurrency=concurrency, time_scale=time_scale)
    played, _ = play(TREES, config, lambda number: times[number % len(times)])
    check_waits(played, time_scale)
    assert sorted(p.key for p in played) == [
        (number, node.index) for number, tree in enumerate(TREES) for node in tree.nodes
    ]
    assert max(p.num_live_trees for p in played) == min(concurrency, len(TREES))
    assert all(p.dispatch.due_s <= p.start for p in played)


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=40))
def test_a_server_ten_times_slower_is_offered_less_in_the_same_order(times):
    """Order within each conversation is kept, and the run is longer: the loop is closed."""
    trees = TREES[:3]
    fast, _ = play(trees, NO_CAPS, lambda number: times[number % len(times)])
    slow, _ = play(trees, NO_CAPS, lambda number: 10 * times[number % len(times)])
    check_waits(slow)
    for tree in trees:
        for conversation in {node.conversation for node in tree.nodes}:
            assert _turns(slow, conversation) == _turns(fast, conversation)
    assert max(p.end for p in slow) > max(p.end for p in fast)


def test_a_lane_takes_the_next_session_when_its_tree_has_drained():
    trees = [build_tree(trace(call(0.0, [1]), id=name)) for name in "abc"]
    played, _ = play(trees, changed(concurrency=2), lambda number: [5.0, 1.0, 1.0][number])
    assert [(p.dispatch.live.tree.trace_id, p.dispatch.live.lane) for p in played] == [
        ("a", 0),
        ("b", 1),
        ("c", 1),
    ]
    assert played[2].start == 101.0


def test_a_background_child_keeps_its_tree_alive():
    tree = build_tree(trace(call(0.0, [1]), subagent(1.0, [call(1.0, [9])]), id="a"))
    played, _ = play([tree, TREES[0]], changed(concurrency=1), lambda _: 2.0)
    assert names(played)[1] == "a::sa:agent_001.0"
    assert played[2].start >= played[1].end


def test_a_duration_goes_round_and_starts_nothing_after_its_end():
    config = changed(duration_s=60.0, concurrency=3)
    played, scheduler = play(TREES[:2], config, lambda _: 1.0)
    assert scheduler.stop_reason == "duration"
    assert max(p.start for p in played) < 160.0
    plays = {p.dispatch.live.play: p.dispatch.live.tree.trace_id for p in played}
    assert len(plays) > 2
    assert all(plays[n] == TREES[n % 2].trace_id for n in plays)


@pytest.mark.parametrize("limit", [1, 7, 200])
def test_max_turns_is_exact(limit):
    played, scheduler = play(TREES, changed(max_turns=limit), lambda _: 0.5)
    assert (len(played), scheduler.stop_reason) == (limit, "max_turns")
    check_waits(played)


def test_an_overflowing_child_ends_alone_and_the_parent_goes_on():
    played, _ = play([build_tree(demo_trace())], NO_CAPS, lambda _: 0.1, lambda n: (n == 2, n == 2))
    assert names(played) == ["demo.0", "demo.1", "demo::sa:agent_001.0", "demo.2", "demo.3"]


def test_an_overflowing_main_agent_ends_its_session():
    trees = [build_tree(demo_trace()), TREES[0]]
    played, _ = play(trees, changed(concurrency=1), lambda _: 0.1, lambda n: (n == 1, n == 1))
    assert names(played)[:2] == ["demo.0", "demo.1"]
    assert {p.dispatch.live.tree.trace_id for p in played[2:]} == {TREES[0].trace_id}
    assert len(played) == 2 + len(TREES[0].nodes)


def test_other_failures_do_not_end_a_session():
    played, scheduler = play(
        [build_tree(demo_trace())], NO_CAPS, lambda _: 0.1, lambda _: (True, False)
    )
    assert len(played) == 6
    assert scheduler.stop_reason is None  # too few results to judge


def test_too_many_failures_end_the_run():
    played, scheduler = play(TREES, NO_CAPS, lambda _: 0.1, lambda n: (n % 5 == 0, False))
    assert scheduler.stop_reason == "errors"
    assert len(played) < sum(len(tree.nodes) for tree in TREES)
    rare, scheduler = play(TREES, NO_CAPS, lambda _: 0.1, lambda n: (n % 20 == 19, False))
    assert scheduler.stop_reason is None
    assert len(rare) == sum(len(tree.nodes) for tree in TREES)


def long_gap(name: str, gap_s: float) -> SessionTree:
    return build_tree(trace(call(0.0, [1]), call(gap_s + 0.5, [1, 2]), id=name))


def test_an_idle_session_is_advanced_after_its_cap():
    config = changed(tree_idle_cap_s=300.0, concurrency=1)
    played, _ = play([long_gap("a", 5000.0)], config, lambda _: 1.0)
    assert played[1].start == played[0].end + 300.0


def test_an_idle_replay_is_advanced_and_offsets_stay():
    config = changed(idle_cap_s=10.0)
    trees = [long_gap("a", 100.0), long_gap("b", 103.0)]
    played, _ = play(trees, config, lambda _: 1.0)
    assert [p.start - 100.0 for p in played] == [0.0, 0.0, 11.0, 14.0]


def test_running_requests_hold_the_idle_cap_off():
    config = changed(idle_cap_s=10.0)
    busy = build_tree(trace(call(0.0, [1]), id="busy"))
    played, _ = play(
        [long_gap("a", 40.0), busy], config, lambda number: 60.0 if number == 1 else 1.0
    )
    assert played[2].start == 141.0


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"concurrency": 0}, "--concurrency"),
        ({"duration_s": 0.0}, "--duration"),
        ({"max_turns": 0}, "--max-turns"),
        ({"time_scale": -0.1}, "--time-scale"),
        ({"time_scale": float("nan")}, "--time-scale"),
        ({"idle_cap_s": -1.0}, "--idle-cap"),
        ({"tree_idle_cap_s": float("nan")}, "--tree-idle-cap"),
    ],
)
def test_impossible_options_name_their_flag(change, flag):
    with pytest.raises(ConfigError, match=flag):
        changed(**change)


def _turns(played: list[Played], conversation: str) -> list[int]:
    return [p.dispatch.node.turn for p in played if p.dispatch.node.conversation == conversation]
