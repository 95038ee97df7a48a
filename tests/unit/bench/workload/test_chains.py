from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.workload.chains import PlacedCall, infer_chains, shared_prefix
from okibi.bench.workload.trace import Call
from tests.unit.bench.traces import call, ids


def orders(*calls: Call) -> list[list[int]]:
    placed = [PlacedCall(order=order, call=each) for order, each in enumerate(calls)]
    return [[item.order for item in chain.calls] for chain in infer_chains(placed)]


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_shared_prefix_is_the_first_difference(first, second):
    expected = 0
    while expected < min(len(first), len(second)) and first[expected] == second[expected]:
        expected += 1
    assert shared_prefix(first, second) == expected


def test_growing_prompts_are_one_agent():
    assert orders(call(0, ids(1, 4)), call(1, ids(1, 6)), call(2, ids(1, 9))) == [[0, 1, 2]]


def test_overlapping_calls_on_a_prefix_are_workers():
    main = [call(0, ids(1, 6)), call(9, ids(1, 8))]
    workers = [
        call(1.0, [*ids(1, 5), 50, 51]),
        call(1.1, [*ids(1, 5), 60]),
        call(2.0, [*ids(1, 5), 50, 51, 52]),
    ]
    assert orders(main[0], *workers, main[1]) == [[0, 4], [1, 3], [2]]


def test_a_call_that_starts_before_the_last_one_ended_is_another_agent():
    assert orders(call(0, ids(1, 4), api_time=5.0), call(1, ids(1, 6))) == [[0], [1]]


def test_a_shorter_prompt_that_is_never_undone_is_a_compaction():
    before = [call(0, ids(1, 4)), call(1, ids(1, 9))]
    after = [call(2, [*ids(1, 2), 70, 71]), call(3, [*ids(1, 2), 70, 71, 72])]
    assert orders(*before, *after) == [[0, 1, 2, 3]]


def test_a_return_to_the_longer_prompt_makes_the_shorter_one_a_worker():
    calls = [call(0, ids(1, 4)), call(1, [*ids(1, 2), 70]), call(2, ids(1, 6))]
    assert orders(*calls) == [[0, 2], [1]]


def test_two_compactions_in_a_row_stay_one_agent():
    calls = [
        call(0, ids(1, 9)),
        call(1, [*ids(1, 3), 50, 51]),
        call(2, [1, 2, 60]),
        call(3, [1, 2, 60, 61]),
    ]
    assert orders(*calls) == [[0, 1, 2, 3]]


def test_another_model_is_another_agent():
    other = call(1, ids(1, 6), model="small")
    assert orders(call(0, ids(1, 4)), other, call(2, ids(1, 8))) == [[0, 2], [1]]


def test_hours_later_with_little_in_common_is_another_session():
    late = call(9000, [1, 80, 81, 82])
    assert orders(call(0, ids(1, 9)), late) == [[0], [1]]
    assert orders(call(0, ids(1, 9)), call(9000, [*ids(1, 7), 80])) == [[0, 1]]


def test_a_title_call_at_the_start_does_not_found_the_session():
    title = call(0, [90, 91], out=10)
    assert orders(title, call(1, ids(1, 4)), call(2, ids(1, 6))) == [[0, 1, 2]]
    sharing = call(0, [1, 91], out=10)
    assert orders(sharing, call(1, ids(1, 4)), call(2, ids(1, 6)))[0] == [0, 1, 2]


def test_calls_without_ids_stay_with_the_main_agent():
    assert orders(call(0, []), call(1, ids(1, 3)), call(2, []), call(3, ids(1, 4))) == [
        [0, 1, 2, 3]
    ]
