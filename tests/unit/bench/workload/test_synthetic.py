import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.trace import Subagent, decode_trace, encode_trace
from okibi.bench.workload.tree import build_tree
from okibi.core.errors import ConfigError

BUSY = SyntheticConfig(num_turns=16, fork_probability=0.4, subagent_probability=0.4)


def test_a_seed_fixes_every_byte_and_another_changes_them():
    first = [encode_trace(generate_trace(BUSY, i)) for i in range(3)]
    again = [encode_trace(generate_trace(BUSY, i)) for i in range(3)]
    other = encode_trace(generate_trace(dataclasses.replace(BUSY, seed=1), 0))
    assert first == again
    assert other != first[0]


def test_more_sessions_keep_the_earlier_ones():
    more = dataclasses.replace(BUSY, num_sessions=50)
    assert generate_trace(BUSY, 2) == generate_trace(more, 2)


@given(
    st.integers(0, 10_000),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.5),
    st.sampled_from([0, 64, 512]),
    st.integers(4000, 20_000),
)
def test_sessions_are_valid_and_fit(seed, fork, subagent, tool_tokens, max_context):
    config = SyntheticConfig(
        seed=seed,
        fork_probability=fork,
        subagent_probability=subagent,
        tool_tokens=tool_tokens,
        max_context_tokens=max_context,
    )
    found = generate_trace(config, 0)
    assert decode_trace(encode_trace(found), "generated") == found
    assert found.peak_context_tokens <= max_context
    assert all(len(call.hash_ids) == call.num_input_tokens // 64 for call in found.calls)
    build_tree(found)


def test_forks_and_subagents_come_out_as_such():
    """Every call past the main agent's belongs to a worker or a subagent, none to both."""
    num_workers = num_subagents = 0
    for index in range(20):
        found = generate_trace(BUSY, index)
        tree = build_tree(found)
        agents = {node.conversation for node in tree.nodes}
        declared = [r for r in found.requests if isinstance(r, Subagent)]
        assert sum("::sa:" in name for name in agents) == len(declared)
        num_workers += sum("::fa:" in name for name in agents)
        num_subagents += len(declared)
        main = [node for node in tree.nodes if node.depth == 0]
        assert [len(n.call.hash_ids) for n in main] == sorted(len(n.call.hash_ids) for n in main)
    assert num_workers > 20
    assert num_subagents > 10


def test_a_parent_waits_for_all_its_children():
    for index in range(10):
        tree = build_tree(generate_trace(BUSY, index))
        waited_for = {edge.before for node in tree.nodes if node.depth == 0 for edge in node.after}
        last = {node.conversation: node.index for node in tree.nodes}
        children = {at for name, at in last.items() if "::" in name}
        assert children <= waited_for


def test_subagents_share_only_the_prefix():
    found = next(t for i in range(20) if (t := generate_trace(BUSY, i)).requests and _subagents(t))
    prefix_blocks = BUSY.prefix_tokens // 64
    main, child = found.calls[0], _subagents(found)[0].calls[0]
    assert child.hash_ids[:prefix_blocks] == main.hash_ids[:prefix_blocks]
    assert set(child.hash_ids[prefix_blocks:]).isdisjoint(main.hash_ids)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"num_turns": 1}, "--turns"),
        ({"tool_tokens": 100}, "--tool-tokens"),
        ({"output_tokens": 0}, "token options"),
        ({"tool_gap_s": -1.0}, "gaps"),
        ({"tool_gap_s": float("nan")}, "gaps"),
        ({"max_context_tokens": 1024}, "--max-context"),
        ({"end_turn_probability": 1.5}, "--end-turn-probability"),
        ({"fork_probability": -0.1}, "--fork-probability"),
        ({"subagent_probability": float("nan")}, "--subagent-probability"),
        ({"fork_probability": 0.9, "subagent_probability": 0.2}, "--fork-probability"),
    ],
)
def test_impossible_options_name_their_flag(change, flag):
    with pytest.raises(ConfigError, match=flag):
        generate_trace(dataclasses.replace(BUSY, **change), 0)


def _subagents(found):
    return [request for request in found.requests if isinstance(request, Subagent)]
