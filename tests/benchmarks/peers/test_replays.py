"""What is made of the records of a replay; each record is one request in closed form."""

import pytest

from benchmarks.peers.replays import STOPPED, replay_figures
from benchmarks.peers.speed import UnusableResult
from tests.unit.bench.records import failed, record


def test_a_finished_replay_has_all_figures():
    found = replay_figures([record()], None, 600.0)
    assert found["wall_s"] == pytest.approx(1.5)
    assert found["ttft_p50_s"] == found["ttft_p90_s"] == pytest.approx(0.5)
    assert found["user_tok_per_s_p50"] == found["user_tok_per_s_p10"] == pytest.approx(10.0)
    assert found["output_tok_per_s"] == pytest.approx(11 / 1.5)
    assert found["cached_share"] == pytest.approx(0.6)


def test_the_slow_tail_is_below_the_median():
    slower = [record(last_token_s=10.5 + 1.0 * n, end_s=10.5 + 1.0 * n) for n in range(1, 12)]
    found = replay_figures(slower, None, 600.0)
    assert found["user_tok_per_s_p10"] == pytest.approx(1.0)
    assert found["user_tok_per_s_p50"] == pytest.approx(1 / 0.6)


def test_a_server_that_reports_no_hits_has_no_share():
    assert "cached_share" not in replay_figures([record(cached_tokens=None)], None, 600.0)


def test_of_a_stopped_replay_only_the_limit_is_known():
    assert replay_figures([record(), failed("cancelled")], "limit", 600.0) == {STOPPED: 600.0}


@pytest.mark.parametrize(
    ("records", "stop_reason", "reason"),
    [
        ([record(), failed("http_500")], None, "1 of 2 failed.*http_500"),
        ([record(completion_tokens=7)], None, "another length"),
        ([record()], "errors", "ended early"),
    ],
)
def test_a_replay_that_went_wrong_has_no_figures(records, stop_reason, reason):
    with pytest.raises(UnusableResult, match=reason):
        replay_figures(records, stop_reason, 600.0)
