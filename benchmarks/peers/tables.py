"""Shows a run: a table of figures, a table of targets, and both as JSON.

Must never compute a figure or a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.table import Table

from benchmarks.peers.records import CaseRecord, RunHeader, open_problems
from benchmarks.peers.summary import Figure, FigureKey, metrics_in_order
from benchmarks.peers.targets import TARGETS, Target, Verdict

SCHEMA = "okibi.bench.peers/1"
LEGEND = (
    "median; ± is half the range over rounds; [yellow]*[/yellow] other programs used over 10 % of "
    "the machine meanwhile"
)
_COLOURS = {
    Verdict.MET: "green",
    Verdict.PROBABLY: "yellow",
    Verdict.UNCLEAR: "yellow",
    Verdict.MISSED: "red",
}


def print_run(
    records: Sequence[CaseRecord], found: Mapping[FigureKey, Figure], console: Console
) -> None:
    """Figures, targets, then what went wrong."""
    console.print(figure_table(found))
    console.print(LEGEND, highlight=False)
    console.print(target_table(found))
    for record in open_problems(records):
        place = f"round {record.round}, {record.variant}, {record.case}"
        console.print(f"[red]problem:[/red] {place}: {record.problem}", highlight=False)


def figure_table(found: Mapping[FigureKey, Figure]) -> Table:
    """One row a metric, one column a variant."""
    variants = list(dict.fromkeys(variant for variant, _ in found))
    table = Table(title="figures", title_justify="left")
    table.add_column("metric")
    for variant in variants:
        table.add_column(variant, justify="right")
    for metric in metrics_in_order(list(found)):
        cells = [found.get((variant, metric)) for variant in variants]
        table.add_row(metric, *[_cell(figure) for figure in cells])
    return table


def target_table(found: Mapping[FigureKey, Figure]) -> RenderableType:
    """Every target with what was measured for it."""
    table = Table(title="targets (okibi / peer)", title_justify="left")
    for name in ("metric", "pair", "target", "ratio", "range", "verdict"):
        table.add_column(name)
    for target in TARGETS:
        table.add_row(*_target_cells(target, found))
    return table


def to_json(
    header: RunHeader, records: Sequence[CaseRecord], found: Mapping[FigureKey, Figure]
) -> bytes:
    """Header, figures, targets and problems, indented."""
    content = {
        "schema": SCHEMA,
        "run": header,
        "figures": [_figure_fields(key, figure) for key, figure in found.items()],
        "targets": [_target_fields(target, found) for target in TARGETS],
        "problems": open_problems(records),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    mark = "[yellow]*[/yellow]" if figure.is_disturbed else ""
    spread = "" if figure.spread is None else f" ±{figure.spread / 2:.0%}"
    return f"{_number(figure.value)}{mark}{spread}"


def _number(value: float) -> str:
    """Three or four digits that count."""
    digits = 0 if value >= 1000 else 1 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def _peer(target: Target, found: Mapping[FigureKey, Figure]) -> str:
    """The best peer, or those it is to be chosen from."""
    best = target.best_peer(found)
    return best.name if best else " or ".join(each.name for each in target.theirs)


def _target_cells(target: Target, found: Mapping[FigureKey, Figure]) -> list[str]:
    sign = "≥" if target.at_least else "≤"
    pair = f"{target.ours.name} / {_peer(target, found)}"
    place = [target.metric, pair, f"{sign} {target.bound:g}"]
    ratio = target.ratio(found)
    if ratio is None:
        return [*place, "-", "-", "not measured"]
    verdict = target.verdict(ratio)
    shown = f"[{_COLOURS[verdict]}]{verdict}[/]" + (" (a tie)" if ratio.is_tie else "")
    return [*place, f"{ratio.value:.2f}", f"{ratio.low:.2f} - {ratio.high:.2f}", shown]


def _figure_fields(key: FigureKey, figure: Figure) -> dict[str, Any]:
    variant, metric = key
    return {
        "variant": variant,
        "metric": metric,
        "value": figure.value,
        "rounds": figure.rounds,
        "repeats": figure.num_repeats,
        "spread": figure.spread,
        "disturbed": figure.is_disturbed,
    }


def _target_fields(target: Target, found: Mapping[FigureKey, Figure]) -> dict[str, Any]:
    ratio = target.ratio(found)
    return {
        "metric": target.metric,
        "ours": target.ours.name,
        "theirs": _peer(target, found),
        "bound": target.bound,
        "at_least": target.at_least,
        "ratio": ratio,
        "tie": None if ratio is None else ratio.is_tie,
        "verdict": None if ratio is None else target.verdict(ratio),
    }
