import io
import json

import pytest
from rich.console import Console

from okibi.bench.metrics import compute_metrics
from okibi.bench.report import ReplayReport, print_report, write_folder, write_json
from okibi.core.errors import OkibiError
from tests.unit.bench.records import failed, record


def report(*records, **changes) -> ReplayReport:
    fields = {
        "stop_reason": "completed",
        "partial": False,
        "options": {"seed": 0},
        "workload": {"num_sessions": 1},
        "metrics": compute_metrics(records),
        "warnings": ["look at this"],
    }
    return ReplayReport(**(fields | changes))


def printed(shown: ReplayReport) -> str:
    stream = io.StringIO()
    print_report(shown, Console(file=stream, width=100))
    return stream.getvalue()


def test_the_table_shows_every_figure_and_the_warnings():
    text = printed(report(record()))
    for part in (
        "1 ok, 0 failed",
        "1,011 total = 1,000 input (600 cached) + 11 output",
        "500.0 ms p50, 500.0 ms p90",
        "100.0 ms p50",
        "10.0 tok/s/user",
        "7.3 tok/s/user (P90)",
        "60.0%",
        "64.6%",
        "look at this",
    ):
        assert part in text


def test_a_partial_report_without_results_says_so_and_shows_no_figures():
    text = printed(report(failed("connection"), stop_reason="interrupted", partial=True))
    assert "interrupted (partial)" in text
    assert "connection 1" in text
    assert "None" not in text


def test_json_holds_what_the_table_holds(tmp_path):
    write_json(report(record()), tmp_path / "deep" / "s.json")
    data = json.loads((tmp_path / "deep" / "s.json").read_text())
    assert data["schema"] == "okibi.bench.replay/1"
    assert data["metrics"]["ttft_s"]["p90"] == 0.5
    assert data["warnings"] == ["look at this"]
    assert (data["partial"], data["stop_reason"]) == (False, "completed")


def test_requests_are_lines_in_order_of_start_with_times_from_zero(tmp_path):
    records = [record(turn=1, start_s=12.0, due_s=11.0), record(turn=0), failed("timeout", turn=2)]
    write_folder(report(*records), records, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [(line["turn"], line["start_s"], line["due_s"]) for line in lines] == [
        (0, 0.0, 0.0),
        (2, 0.0, 0.0),
        (1, 2.0, 1.0),
    ]
    assert lines[0]["ttft_s"] == 0.5
    assert lines[1]["failure"] == {"kind": "timeout", "message": "why"}
    assert (tmp_path / "summary.json").exists()


def test_an_unwritable_place_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OkibiError, match="cannot write"):
        write_json(report(record()), tmp_path / "file" / "s.json")
