import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from okibi.bench.workload.chains import shared_prefix
from okibi.bench.workload.prompt_layout import (
    PromptLayout,
    Segment,
    first_layout,
    fork_layout,
    next_layout,
)
from okibi.bench.workload.trace import Call
from tests.unit.bench.traces import call, ids


def shape(layout: PromptLayout) -> list[tuple[str, int]]:
    return [(segment.role[0], segment.num_blocks) for segment in layout.segments]


def test_the_first_prompt_is_system_then_user():
    layout = first_layout(call(0, ids(1, 6)), 2)
    assert shape(layout) == [("s", 2), ("u", 4)]
    assert layout.num_tail_tokens == 8


def test_the_recorded_reply_comes_back_in_whole_blocks():
    first = call(0, ids(1, 6), out=65)
    layout = next_layout(first_layout(first, 2), first, call(1, ids(1, 10)), 6)
    assert shape(layout) == [("s", 2), ("u", 4), ("a", 2), ("u", 2)]


def test_blocks_without_an_id_belong_to_the_tail():
    layout = first_layout(call(0, ids(1, 3), num_input_tokens=400), 0)
    assert (shape(layout), layout.num_tail_tokens) == ([("u", 3)], 400 - 192)


def test_a_prompt_of_system_only_still_ends_with_the_user():
    whole = call(0, ids(1, 2), num_input_tokens=128)
    assert shape(first_layout(whole, 2)) == [("s", 1), ("u", 1)]
    assert shape(first_layout(call(0, ids(1, 2)), 2)) == [("s", 2), ("u", 0)]


def test_a_reply_that_fills_the_new_part_leaves_its_last_block_to_the_user():
    first = call(0, ids(1, 4), out=128)
    second = call(1, ids(1, 6), num_input_tokens=384)
    assert shape(next_layout(first_layout(first, 1), first, second, 4))[-2:] == [
        ("a", 1),
        ("u", 1),
    ]


def test_a_cut_before_any_request_shows_no_reply():
    first = call(0, ids(1, 6), out=64)
    layout = next_layout(first_layout(first, 2), first, call(1, [1, 2, 30, 31]), 2)
    assert shape(layout) == [("s", 2), ("u", 2)]


def test_a_fork_keeps_the_roles_of_what_it_shares():
    source = PromptLayout((Segment("system", 2), Segment("user", 2), Segment("assistant", 3)), 0)
    fork = fork_layout(source, call(0, [*ids(1, 5), 50, 51]), 5)
    assert shape(fork) == [("s", 2), ("u", 2), ("a", 1), ("u", 2)]


@st.composite
def conversations(draw) -> list[Call]:
    """Calls that grow, repeat or are cut back, with whole and broken last blocks."""
    calls: list[Call] = []
    blocks: list[int] = []
    next_id = 1
    for turn in range(draw(st.integers(1, 8))):
        kept = draw(st.integers(0, len(blocks)))
        num_new = draw(st.integers(0, 6))
        blocks = blocks[:kept] + ids(next_id, next_id + num_new - 1)
        next_id += num_new
        tail = draw(st.integers(0, 130))
        if not blocks and not tail:
            tail = 1
        calls.append(
            call(turn, blocks, draw(st.integers(0, 200)), num_input_tokens=64 * len(blocks) + tail)
        )
    return calls


@given(conversations(), st.integers(0, 4))
def test_every_layout_holds_the_whole_prompt_in_alternating_roles(calls, num_system):
    layout = first_layout(calls[0], num_system)
    for previous, current in zip([None, *calls], calls, strict=False):
        if previous is not None:
            shared = shared_prefix(previous.hash_ids, current.hash_ids)
            layout = next_layout(layout, previous, current, shared)
        roles = [segment.role for segment in layout.segments]
        assert layout.num_blocks * 64 + layout.num_tail_tokens == current.num_input_tokens
        assert roles[-1] == "user"
        assert "system" not in roles[1:]
        assert all(left != right for left, right in itertools.pairwise(roles))


@given(conversations())
def test_messages_before_the_last_shared_one_never_change(calls):
    assume(len(calls) > 1)
    layout = first_layout(calls[0], 1)
    for previous, current in itertools.pairwise(calls):
        shared = shared_prefix(previous.hash_ids, current.hash_ids)
        grown = next_layout(layout, previous, current, shared)
        seen = 0
        for before, after in zip(layout.segments[:-1], grown.segments, strict=False):
            seen += before.num_blocks
            if seen >= shared:
                break
            assert before == after
        layout = grown
