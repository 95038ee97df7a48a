"""Medians, their spread, and whether a difference is more than noise.

Pure. A round's value is the median of its repeats, a figure the median of its rounds. Repeats on
one server agree better than two starts of the same server do, so only rounds can show how far a
figure moves; with a single round, `START_NOISE` stands in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.records import CaseRecord

START_NOISE = 0.25
"""Share by which figures of one engine differed between two starts (measured: 3 to 25 %)."""

MAX_FOREIGN_CPU = 0.1
"""Share of the machine that others may use before a figure counts as disturbed."""

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One metric of one variant; `rounds` holds the value of each round, in order of rounds."""

    rounds: tuple[float, ...]
    num_repeats: int
    is_disturbed: bool

    @property
    def value(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float | None:
        """(highest - lowest) / median over rounds; None for one round or a median of 0."""
        if len(self.rounds) < 2 or not self.value:
            return None
        return (max(self.rounds) - min(self.rounds)) / self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """One figure over another, with the range that noise allows."""

    value: float
    low: float
    high: float

    @property
    def is_tie(self) -> bool:
        """Whether noise allows either to be ahead."""
        return self.low <= 1.0 <= self.high

    @classmethod
    def of(cls, ours: Figure, theirs: Figure) -> Ratio:
        """Lowest and highest round against highest and lowest; `START_NOISE` for single rounds."""
        value = ours.value / theirs.value
        low, high = min(ours.rounds) / max(theirs.rounds), max(ours.rounds) / min(theirs.rounds)
        if min(len(ours.rounds), len(theirs.rounds)) < 2:
            low = min(low, value / (1.0 + START_NOISE))
            high = max(high, value * (1.0 + START_NOISE))
        return cls(value=value, low=low, high=high)


FigureKey = tuple[str, str]
"""Variant's name, metric: a case's name and a value's, as `decode/100.tok_per_s`."""


def figures(records: Iterable[CaseRecord]) -> dict[FigureKey, Figure]:
    """Every figure of a run, the memory of each variant included."""
    values: dict[FigureKey, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    disturbed: set[FigureKey] = set()
    for record in records:
        for name, repeats in record.values.items():
            key = (record.variant, f"{record.case}.{name}")
            values[key][record.round] += repeats
            if record.foreign_cpu > MAX_FOREIGN_CPU:
                disturbed.add(key)
    found = {key: _figure(rounds, key in disturbed) for key, rounds in values.items()}
    return {**found, **_memory(records)}


def _figure(rounds: dict[int, list[float]], is_disturbed: bool) -> Figure:
    return Figure(
        rounds=tuple(median(rounds[number]) for number in sorted(rounds)),
        num_repeats=sum(len(repeats) for repeats in rounds.values()),
        is_disturbed=is_disturbed,
    )


def _memory(records: Iterable[CaseRecord]) -> dict[FigureKey, Figure]:
    """The most that a variant's servers held in each round."""
    highest: dict[FigureKey, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0]))
    for record in records:
        for name, size in (("pss", record.pss_bytes), ("peak_rss", record.peak_rss_bytes)):
            if size is not None:
                held = highest[record.variant, f"memory.{name}_gib"]
                held[record.round] = [max(held[record.round][0], size / GIB)]
    return {key: _figure(rounds, is_disturbed=False) for key, rounds in highest.items()}


def metrics_in_order(keys: Sequence[FigureKey]) -> list[str]:
    """Each metric once, in the order in which it first appears."""
    return list(dict.fromkeys(metric for _, metric in keys))
