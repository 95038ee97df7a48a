import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.metrics import compute_metrics, find_warnings, percentile
from tests.unit.bench.records import failed, record


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_interpolate_linearly(values, percent):
    assert percentile(values, percent) == pytest.approx(
        float(np.percentile(values, percent)), rel=1e-9, abs=1e-6
    )


def test_no_values_have_no_percentile():
    assert percentile([], 90) is None


def test_one_request_in_closed_form():
    metrics = compute_metrics([record()])
    assert metrics.ttft_s.p90 == pytest.approx(0.5)
    assert metrics.itl_s.p50 == pytest.approx(0.1)  # (1.5 - 0.5) / (11 - 1)
    assert metrics.interactivity_p90 == pytest.approx(10.0)
    assert metrics.e2e_interactivity_p90 == pytest.approx(11 / 1.5)
    assert metrics.tokens_per_s == pytest.approx(1011 / 1.5)
    assert metrics.output_tokens_per_s == pytest.approx(11 / 1.5)
    assert metrics.measured_hit_share == pytest.approx(0.6)
    assert metrics.theoretical_hit_share == pytest.approx(0.6)
    assert metrics.reusable_share == pytest.approx(640 / 990)
    assert metrics.prompt_overhead_tokens.p50 == 10
    assert (metrics.total_tokens, metrics.num_osl_mismatches) == (1011, 0)


def test_interactivity_is_the_slow_tail_not_the_fast_one():
    """ITLs of 0.1 .. 1.1 s: P90 is 1.0 s, so interactivity is 1 token/s, not 10."""
    slower = [record(last_token_s=10.5 + 1.0 * n, end_s=10.5 + 1.0 * n) for n in range(1, 12)]
    metrics = compute_metrics(slower)
    assert metrics.itl_s.p90 == pytest.approx(1.0)
    assert metrics.interactivity_p90 == pytest.approx(1.0)


def test_e2e_interactivity_folds_waiting_in():
    metrics = compute_metrics([record(first_token_s=20.0, last_token_s=21.0, end_s=21.0)])
    assert metrics.itl_s.p90 == pytest.approx(0.1)
    assert metrics.e2e_interactivity_p90 == pytest.approx(11 / 11.0)


def test_throughput_spans_first_start_to_last_end():
    metrics = compute_metrics([record(), record(start_s=14.0, end_s=30.0)])
    assert metrics.wall_s == 20.0
    assert metrics.tokens_per_s == pytest.approx(2 * 1011 / 20.0)


def test_hit_rates_weigh_by_tokens_and_blocks():
    small = record(
        prompt_tokens=100, cached_tokens=0, theoretical_hit_blocks=0, theoretical_total_blocks=1
    )
    metrics = compute_metrics([record(), small])
    assert metrics.measured_hit_share == pytest.approx(600 / 1100)
    assert metrics.theoretical_hit_share == pytest.approx(9 / 16)


def test_failures_are_counted_by_kind_and_enter_no_figure():
    records = [
        record(),
        failed("http_429"),
        failed("http_429"),
        failed("context_overflow"),
        failed("cancelled"),
    ]
    metrics = compute_metrics(records)
    assert metrics.errors == {"context_overflow": 1, "http_429": 2}
    assert (metrics.num_ok, metrics.num_failed, metrics.num_cancelled) == (1, 3, 1)
    assert metrics.num_context_overflows == 1
    assert metrics.input_tokens == 1000
    assert metrics.ttft_s == compute_metrics([record()]).ttft_s


def test_short_replies_have_no_itl():
    metrics = compute_metrics([record(completion_tokens=1, recorded_output_tokens=1)])
    assert metrics.itl_s.p50 is None
    assert metrics.interactivity_p90 is None
    assert metrics.e2e_interactivity_p90 == pytest.approx(1 / 1.5)


def test_reply_lengths_are_compared_and_zero_is_sent_as_one():
    lengths = [(11, 11), (10, 11), (1, 0), (None, 11)]
    records = [record(completion_tokens=a, recorded_output_tokens=b) for a, b in lengths]
    assert compute_metrics(records).num_osl_mismatches == 1


def test_nothing_measured_is_nothing_claimed():
    for records in ([], [failed("connection")]):
        metrics = compute_metrics(records)
        assert metrics.tokens_per_s is None
        assert metrics.measured_hit_share is None
        assert metrics.theoretical_hit_share is None


def warnings(*records) -> str:
    return "\n".join(find_warnings(compute_metrics(records), records))


def test_a_hit_rate_above_what_the_run_sent_is_flagged():
    assert "above the 64.6%" in warnings(record(cached_tokens=800))
    assert "cache" not in warnings(record(cached_tokens=640))


def test_hits_without_any_reusable_block_are_flagged():
    assert "above the 0.0%" in warnings(record(num_reusable_blocks=0))


def test_a_silent_server_is_named():
    silent = record(prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    assert "no usage" in warnings(silent)
    assert "no cached_tokens" in warnings(record(cached_tokens=None))


def test_wrong_lengths_and_a_slow_client_are_named():
    assert "recorded length" in warnings(record(completion_tokens=5))
    assert "this client is the bottleneck" in warnings(record(due_s=9.0))
    assert warnings(record()) == ""
