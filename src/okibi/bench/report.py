"""A replay's report: a table for people, JSON for machines, one line per request.

The JSON carries everything needed to judge the figures: how the run ended, its options, how exact
the text was, and warnings. Must never compute a figure; those are `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from okibi.bench.metrics import Percentiles, ReplayMetrics
from okibi.bench.replay.records import RequestRecord
from okibi.core.errors import OkibiError

SCHEMA = "okibi.bench.replay/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayReport:
    """One replay. `stop_reason` is completed, duration, max_turns, interrupted or errors;
    `partial` says that planned work is missing."""

    stop_reason: str
    partial: bool
    options: dict[str, Any]
    workload: dict[str, Any]
    metrics: ReplayMetrics
    warnings: list[str]

    def to_json(self) -> bytes:
        """The report, indented, keys in a fixed order."""
        content = {"schema": SCHEMA, **asdict(self)}
        return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def write_json(report: ReplayReport, path: Path) -> None:
    """Write the summary. Raises OkibiError if the file cannot be written."""
    _write(path, report.to_json())


def write_folder(report: ReplayReport, records: Sequence[RequestRecord], folder: Path) -> None:
    """Write `summary.json` and `requests.jsonl`, one request a line in order of start.

    Times are seconds since the first start. Raises OkibiError if a file cannot be written.
    """
    ordered = sorted(records, key=lambda record: record.result.start_s)
    origin_s = ordered[0].result.start_s if ordered else 0.0
    lines = [msgspec.json.encode(_request_fields(record, origin_s)) for record in ordered]
    _write(folder / "summary.json", report.to_json())
    _write(folder / "requests.jsonl", b"".join(line + b"\n" for line in lines))


def print_report(report: ReplayReport, console: Console) -> None:
    """The table, then warnings."""
    metrics = report.metrics
    title = f"replay: {report.stop_reason}" + (" (partial)" if report.partial else "")
    table = Table(title=title, title_justify="left", show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(metrics):
        table.add_row(name, value)
    console.print(table)
    for warning in report.warnings:
        console.print(f"[yellow]warning:[/yellow] {warning}", highlight=False, soft_wrap=True)


def _rows(metrics: ReplayMetrics) -> list[tuple[str, str]]:
    errors = ", ".join(f"{kind} {count}" for kind, count in metrics.errors.items()) or "none"
    overhead = metrics.prompt_overhead_tokens
    return [
        ("requests", _requests(metrics)),
        ("sessions", f"{metrics.num_sessions:,}"),
        ("errors", errors),
        ("context overflows", f"{metrics.num_context_overflows:,}"),
        ("wall time", f"{metrics.wall_s:.1f} s"),
        ("tokens", _tokens(metrics)),
        ("throughput", f"{_number(metrics.tokens_per_s)} tok/s"),
        ("output throughput", f"{_number(metrics.output_tokens_per_s)} tok/s"),
        ("TTFT", _milliseconds(metrics.ttft_s)),
        ("ITL", _milliseconds(metrics.itl_s)),
        ("P90 interactivity", f"{_number(metrics.interactivity_p90)} tok/s/user"),
        ("E2E-normalised", f"{_number(metrics.e2e_interactivity_p90)} tok/s/user (P90)"),
        ("hit rate, measured", _share(metrics.measured_hit_share)),
        ("hit rate, theoretical", _share(metrics.theoretical_hit_share)),
        ("hit rate, reusable", f"{_share(metrics.reusable_share)} (most an empty cache could hit)"),
        ("replies off length", f"{metrics.num_osl_mismatches:,}"),
        ("prompt overhead", f"{_number(overhead.p50)} tokens p50, {_number(overhead.p90)} p90"),
    ]


def _requests(metrics: ReplayMetrics) -> str:
    text = f"{metrics.num_ok:,} ok, {metrics.num_failed:,} failed"
    return text + (f", {metrics.num_cancelled:,} cut off" if metrics.num_cancelled else "")


def _tokens(metrics: ReplayMetrics) -> str:
    return (
        f"{metrics.total_tokens:,} total = {metrics.input_tokens:,} input "
        f"({metrics.cached_tokens:,} cached) + {metrics.output_tokens:,} output"
    )


def _milliseconds(values: Percentiles) -> str:
    if values.p50 is None or values.p90 is None:
        return "-"
    return f"{values.p50 * 1000:,.1f} ms p50, {values.p90 * 1000:,.1f} ms p90"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _request_fields(record: RequestRecord, origin_s: float) -> dict[str, Any]:
    """Flat fields of a record, times in seconds since `origin_s`."""
    fields = asdict(record)
    fields.update(fields.pop("result"))
    for name in ("due_s", "start_s", "first_token_s", "last_token_s", "end_s"):
        if fields[name] is not None:
            fields[name] -= origin_s
    own = {"ttft_s": record.ttft_s, "itl_s": record.itl_s, "latency_s": record.latency_s}
    return {**fields, **own}


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise OkibiError(f"cannot write {path}: {error}") from None
