"""Medians and noise by hand."""

import pytest

from benchmarks.peers.records import CaseRecord
from benchmarks.peers.summary import GIB, START_NOISE, Figure, Ratio, figures, metrics_in_order

DECODE = "decode/100"
KEY = ("okibi-bf16", "decode/100.tok_per_s")


def record(number: int, *values: float, **changes) -> CaseRecord:
    fields = {"round": number, "variant": "okibi-bf16", "case": DECODE}
    return CaseRecord(**{**fields, "values": {"tok_per_s": list(values)}, **changes})


def figure(*rounds: float) -> Figure:
    return Figure(rounds=rounds, num_repeats=len(rounds), is_disturbed=False)


def test_a_figure_is_the_median_of_the_medians_of_rounds():
    found = figures([record(2, 30.0), record(1, 1.0, 10.0, 99.0), record(3, 20.0)])[KEY]
    assert found.rounds == (10.0, 30.0, 20.0)
    assert (found.value, found.num_repeats, found.spread) == (20.0, 5, 1.0)


def test_records_of_one_round_are_its_repeats():
    found = figures([record(1, 1.0), record(1, 3.0)])[KEY]
    assert (found.rounds, found.num_repeats) == ((2.0,), 2)


def test_one_round_shows_no_spread():
    assert figure(10.0).spread is None
    assert figure(0.0, 0.0).spread is None


def test_one_disturbed_record_marks_the_figure():
    quiet, loud = record(1, 1.0, foreign_cpu=0.1), record(2, 1.0, foreign_cpu=0.11)
    assert not figures([quiet])[KEY].is_disturbed
    assert figures([quiet, loud])[KEY].is_disturbed


def test_memory_is_the_most_of_a_round():
    records = [
        record(1, 1.0, pss_bytes=GIB, peak_rss_bytes=4 * GIB),
        record(1, 1.0, case="replay/4", pss_bytes=3 * GIB),
        record(2, 1.0, pss_bytes=2 * GIB),
    ]
    found = figures(records)
    assert found["okibi-bf16", "memory.pss_gib"].rounds == (3.0, 2.0)
    assert found["okibi-bf16", "memory.peak_rss_gib"].rounds == (4.0,)


def test_rounds_bound_a_ratio():
    ratio = Ratio.of(figure(10.0, 12.0, 14.0), figure(4.0, 5.0, 6.0))
    assert (ratio.value, ratio.low, ratio.high) == (12 / 5, 10 / 6, 14 / 4)
    assert not ratio.is_tie


@pytest.mark.parametrize(("value", "tie"), [(1.2, True), (1.3, False), (0.81, True), (0.79, False)])
def test_a_single_round_is_as_noisy_as_starts_are(value, tie):
    ratio = Ratio.of(figure(value), figure(1.0))
    assert ratio.low == pytest.approx(value / (1 + START_NOISE))
    assert ratio.high == pytest.approx(value * (1 + START_NOISE))
    assert ratio.is_tie is tie


def test_the_assumed_noise_never_narrows_what_rounds_have_shown():
    ratio = Ratio.of(figure(10.0), figure(5.0, 10.0, 20.0))
    assert (ratio.low, ratio.high) == (0.5, 2.0)


def test_metrics_keep_their_first_place():
    keys = [("a", "x"), ("a", "y"), ("b", "z"), ("b", "x")]
    assert metrics_in_order(keys) == ["x", "y", "z"]
