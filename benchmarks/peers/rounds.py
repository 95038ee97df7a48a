"""Which server is started when, and which cases it gets.

Pure. A round visits every variant once; every second round goes backwards, so that a machine that
slows down or speeds up over an hour favours nobody. Must never plan two servers at a time.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from benchmarks.peers.cases import Case
from benchmarks.peers.variants import Variant

Key = tuple[int, str, str]
"""Round, variant's name, case's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRun:
    """One start of one server and the cases it is measured on."""

    round: int
    variant: Variant
    cases: tuple[Case, ...]


def plan_rounds(
    variants: Sequence[Variant], cases: Sequence[Case], num_rounds: int, done: Set[Key]
) -> list[ServerRun]:
    """The servers to start, in order; what is in `done` is left out."""
    runs: list[ServerRun] = []
    for number in range(1, num_rounds + 1):
        for variant in variants if number % 2 else reversed(variants):
            left = [case for case in cases if (number, variant.name, case.name) not in done]
            runs += [
                ServerRun(round=number, variant=variant, cases=group)
                for group in _groups(variant, left)
            ]
    return runs


def _groups(variant: Variant, cases: Sequence[Case]) -> list[tuple[Case, ...]]:
    """Cases that one server can serve, kept in order."""
    if not variant.needs_server_per_stage:
        return [tuple(cases)] if cases else []
    stages = dict.fromkeys(case.stage for case in cases)
    return [tuple(case for case in cases if case.stage is stage) for stage in stages]
