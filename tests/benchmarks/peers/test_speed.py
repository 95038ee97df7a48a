"""Speeds of streams whose times are known."""

import pytest

from benchmarks.peers.speed import (
    StreamTimes,
    UnusableResult,
    check_result,
    decode_speed,
    overall_speed,
    prefill_speed,
    steady_speed,
)
from okibi.bench.replay.records import RequestFailure, RequestResult


def result(**changes) -> RequestResult:
    """A prompt of 512 tokens, taken in within 2 s; 11 tokens in the second after it."""
    fields = {
        "start_s": 10.0,
        "first_token_s": 12.0,
        "last_token_s": 13.0,
        "end_s": 13.5,
        "prompt_tokens": 512,
        "cached_tokens": 0,
        "completion_tokens": 11,
    }
    return RequestResult(**{**fields, **changes})


def test_speeds_of_one_stream():
    assert prefill_speed(result()) == 256.0
    assert prefill_speed(result(cached_tokens=None)) == 256.0
    assert decode_speed(result()) == 10.0


def test_a_prompt_that_was_cached_has_no_prefill_speed():
    with pytest.raises(UnusableResult, match="16 tokens"):
        prefill_speed(result(cached_tokens=16))


def test_a_reply_in_one_piece_has_no_decode_speed():
    with pytest.raises(UnusableResult, match="one piece"):
        decode_speed(result(last_token_s=12.0))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"failure": RequestFailure(kind="http_500", message="broken")}, "http_500: broken"),
        ({"prompt_tokens": None}, "no usage"),
        ({"completion_tokens": None}, "no usage"),
        ({"completion_tokens": 7}, "7 tokens instead of 11"),
        ({"first_token_s": None}, "no token was seen"),
    ],
)
def test_an_incomplete_reply_is_unusable(changes, reason):
    check_result(result(), 11)
    with pytest.raises(UnusableResult, match=reason):
        check_result(result(**changes), 11)


def test_steady_speed_counts_only_while_all_streams_run():
    early = StreamTimes(pieces=(1.0, 2.0, 3.0, 4.0), num_tokens=4)
    late = StreamTimes(pieces=(2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0), num_tokens=7)
    assert steady_speed([early, late]) == (2 + 4) / (4.0 - 2.0)


def test_a_piece_stands_for_an_equal_part_of_the_tokens():
    pairs = StreamTimes(pieces=(1.0, 2.0, 3.0), num_tokens=6)
    assert steady_speed([pairs, pairs]) == 2 * 4 / 2.0


def test_streams_one_after_another_have_no_steady_speed():
    first = StreamTimes(pieces=(1.0, 2.0), num_tokens=2)
    second = StreamTimes(pieces=(2.0, 3.0), num_tokens=2)
    with pytest.raises(UnusableResult, match="never all ran"):
        steady_speed([first, second])


def test_overall_speed_includes_prefill():
    assert overall_speed([result(), result(start_s=9.5, end_s=15.0)]) == 22 / 5.5
