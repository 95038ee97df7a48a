import pytest

from okibi.bench.workload.trace import TraceError
from okibi.bench.workload.tree import SessionTree, build_tree
from tests.unit.bench.traces import call, demo_trace, ids, subagent, trace


def edges(tree: SessionTree) -> dict[str, list[tuple[str, float]]]:
    """`conversation.turn` -> what it waits for and how long after."""
    names = [f"{node.conversation}.{node.turn}" for node in tree.nodes]
    return {
        names[node.index]: sorted((names[e.before], round(e.gap_s, 6)) for e in node.after)
        for node in tree.nodes
    }


def test_the_demo_session_spawns_and_joins():
    assert edges(build_tree(demo_trace())) == {
        "demo.0": [],
        "demo.1": [("demo.0", 0.6)],
        "demo.2": [("demo.1", 1.6), ("demo::sa:agent_001.1", 0.0)],
        "demo.3": [("demo.2", 0.6)],
        "demo::sa:agent_001.0": [("demo.1", 0.1)],
        "demo::sa:agent_001.1": [("demo::sa:agent_001.0", 0.3)],
    }


def test_the_demo_session_hits_what_the_reference_says():
    nodes = build_tree(demo_trace()).nodes
    num_hit = sum(node.hits.num_hit for node in nodes)
    num_total = sum(node.hits.num_total for node in nodes)
    assert (num_hit, num_total) == (38, 58)
    assert num_hit / num_total == pytest.approx(0.6552, abs=5e-5)


def test_a_subagent_that_outlives_the_parent_gates_nothing():
    long = subagent(1.0, [call(1.0, [40])], duration_ms=60_000)
    tree = build_tree(trace(call(0.0, [1]), long, call(2.0, [1, 2])))
    assert edges(tree)["session.1"] == [("session.0", 1.5)]
    assert edges(tree)["session::sa:agent_001.0"] == [("session.0", 0.0)]


def test_a_subagent_before_the_first_turn_is_dropped_and_counted():
    early = subagent(0.0, [call(0.5, [40])])
    tree = build_tree(trace(early, call(5.0, [1]), call(6.0, [1, 2])))
    assert tree.num_dropped_subagents == 1
    assert list(edges(tree)) == ["session.0", "session.1"]


def test_tiered_children_join_where_each_had_ended():
    tree = build_tree(
        trace(
            call(0.0, [1]),
            subagent(1.0, [call(1.0, [40])], agent_id="a", duration_ms=5000),
            subagent(1.5, [call(1.5, [50])], agent_id="b", duration_ms=11_000),
            call(6.0, [1, 2]),
            call(20.0, [1, 2, 3]),
        )
    )
    found = edges(tree)
    assert ("session::sa:a.0", 0.0) in found["session.1"]
    assert ("session::sa:b.0", 0.0) in found["session.2"]
    assert ("session::sa:b.0", 0.0) not in found["session.1"]


def test_siblings_of_one_spawn_keep_their_offsets():
    tree = build_tree(
        trace(
            call(0.0, [1]),
            subagent(1.0, [call(1.2, [40])], agent_id="a"),
            subagent(1.5, [call(1.7, [50])], agent_id="b"),
            call(9.0, [1, 2]),
        )
    )
    found = edges(tree)
    assert found["session::sa:a.0"] == [("session.0", 0.2)]
    assert found["session::sa:b.0"] == [("session.0", 0.7)]
    assert found["session.1"] == [
        ("session.0", 8.5),
        ("session::sa:a.0", 0.0),
        ("session::sa:b.0", 0.0),
    ]


def test_inferred_forks_run_beside_each_other_and_the_parent_waits():
    tree = build_tree(
        trace(
            call(0.0, ids(1, 6)),
            call(1.0, [*ids(1, 5), 50]),
            call(1.1, [*ids(1, 5), 60]),
            call(1.7, [*ids(1, 5), 50, 51]),
            call(5.0, ids(1, 8)),
        )
    )
    found = edges(tree)
    assert found["session::fa:000.0"] == [("session.0", 0.0)]
    assert found["session::fa:001.0"] == [("session.0", 0.1)]
    assert ("session::fa:001.0", 0.0) in found["session::fa:000.1"]  # had ended when it began
    assert {before for before, _ in found["session.1"]} == {
        "session.0",
        "session::fa:000.1",
        "session::fa:001.0",
    }


def test_recorded_order_holds_between_agents_that_did_not_overlap():
    tree = build_tree(
        trace(
            call(0.0, ids(1, 6)),
            call(1.0, [*ids(1, 5), 50], api_time=6.0),
            call(2.0, ids(1, 7)),
            call(8.0, [*ids(1, 5), 50, 51]),
            call(9.0, ids(1, 8)),
        )
    )
    found = edges(tree)
    assert found["session.1"] == [("session.0", 1.5)]
    assert ("session.1", 0.0) in found["session::fa:000.1"]


def test_forks_inside_a_subagent_are_siblings_of_it():
    inner = [
        call(1.0, ids(40, 45)),
        call(2.0, [*ids(40, 44), 70]),
        call(2.1, [*ids(40, 44), 80]),
        call(4.0, ids(40, 47)),
    ]
    tree = build_tree(trace(call(0.0, [1]), subagent(1.0, inner), call(9.0, [1, 2])))
    names = {node.conversation for node in tree.nodes}
    assert names == {
        "session",
        "session::sa:agent_001",
        "session::sa:agent_001:fa:000",
        "session::sa:agent_001:fa:001",
    }
    join = {before for before, _ in edges(tree)["session.1"]}
    assert {f"{name}.0" for name in names if ":fa:" in name} <= join


def test_calls_out_of_order_in_the_file_are_played_in_order_of_time():
    shuffled = trace(call(2.0, [1, 2]), call(0.0, [1]))
    assert edges(build_tree(shuffled))["session.1"] == [("session.0", 1.5)]


def test_circular_waits_are_refused():
    """A worker that ends within the clock's tolerance after the turn that had to wait for it."""
    broken = trace(
        call(0.0, ids(1, 6)),
        call(1.0, [*ids(1, 5), 50]),
        call(2.0, ids(1, 8), api_time=0.0),
        call(2.0 + 5e-7, [*ids(1, 5), 50, 51], api_time=0.0),
    )
    with pytest.raises(TraceError, match="wait for each other"):
        build_tree(broken)


def test_the_shared_scope_covers_the_system_blocks_only():
    shared = trace(
        call(0.0, ids(1, 6)),
        call(1.0, ids(1, 8)),
        tool_tokens=100,
        system_tokens=28,
        totals={"system_scope": "team"},
    )
    tree = build_tree(shared)
    assert (tree.system_scope, sorted(tree.system_ids)) == ("team", [1, 2])
    assert build_tree(demo_trace()).system_scope is None


@pytest.mark.parametrize("num_tokens", [1, 63, 64])
def test_a_single_short_call_is_a_session(num_tokens):
    tree = build_tree(trace(call(0.0, [], num_input_tokens=num_tokens)))
    assert [node.layout.num_tail_tokens for node in tree.nodes] == [num_tokens]
    assert tree.peak_context_tokens == num_tokens + 16
