"""Flags of `python -m benchmarks.peers`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from benchmarks.peers.cases import FULL, QUICK, Case
from okibi.launch.model_catalog import DEFAULT_MODEL

FULL_ROUNDS, QUICK_ROUNDS = 3, 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerOptions:
    """What to measure, and where to."""

    quick: Annotated[
        bool, Option("--quick", help="A short run of fewer and shorter cases, one round.")
    ] = False
    only: Annotated[
        str | None, Option(help="Engines or variants, such as okibi,vllm-bf16; all if left out.")
    ] = None
    cases: Annotated[
        str | None, Option(help="Cases, such as prefill,decode/100; all if left out.")
    ] = None
    rounds: Annotated[
        int | None,
        Option(min=1, help=f"Rounds; {FULL_ROUNDS}, or {QUICK_ROUNDS} with --quick, if left out."),
    ] = None
    model: Annotated[
        str,
        Option(
            help="A catalogue name, a Hugging Face folder or a GGUF file; qwen3-0.6b-random for "
            "random weights of that shape."
        ),
    ] = DEFAULT_MODEL
    resume: Annotated[
        bool, Option("--resume", help="Go on with the run in --out where it was interrupted.")
    ] = False
    out: Annotated[Path, Option(help="Folder for records, logs and the summary.")] = Path(
        "build/bench-peers"
    )
    json_file: Annotated[
        Path | None, Option("--json", help="Also write the summary to this file.")
    ] = None

    @property
    def suite(self) -> tuple[Case, ...]:
        """The cases of this kind of run."""
        return QUICK if self.quick else FULL

    @property
    def num_rounds(self) -> int:
        """Rounds in all, those of a resumed run included."""
        return self.rounds or (QUICK_ROUNDS if self.quick else FULL_ROUNDS)
