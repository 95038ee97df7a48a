"""Runs a plan of servers, one after another, and writes down what each gave.

Before a variant is first measured it is started once for nothing, so that code it compiles, files
it converts and pages it reads are there for every measured start alike.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.peers.launch import ServerFailed, free_port
from benchmarks.peers.prompts import PromptSource
from benchmarks.peers.records import CaseRecord, append_record, read_records
from benchmarks.peers.replays import STOPPED
from benchmarks.peers.rounds import ServerRun
from benchmarks.peers.servers import Peers
from benchmarks.peers.session import ServerSession
from okibi.core.clock import Clock

RECORDS = "records.jsonl"
LOGS = "logs"


class Runner:
    """Measures into one folder."""

    def __init__(
        self, folder: Path, peers: Peers, nonce: str, console: Console, clock: Clock
    ) -> None:
        self._folder = folder
        self._peers = peers
        self._console = console
        self._session = ServerSession(
            PromptSource(nonce, peers.model.vocab_size), peers.model.hf, clock, self._on_record
        )
        self._started: set[str] = set()

    async def run(self, plan: Sequence[ServerRun]) -> None:
        """Measure everything planned."""
        for number, run in enumerate(plan, start=1):
            names = ", ".join(case.name for case in run.cases)
            title = f"server {number} of {len(plan)}: round {run.round}, {run.variant.name}"
            self._console.print(f"{title} ({names})", highlight=False)
            await self._start_once(run)
            stage = run.cases[0].stage
            spec = self._peers.spec(run.variant, stage, free_port())
            log = self._log(f"round{run.round}-{run.variant.name}-{stage}")
            await self._session.measure(run, spec, log, self._stopped(run.variant.name))

    async def _start_once(self, run: ServerRun) -> None:
        name = run.variant.name
        if name in self._started:
            return
        self._started.add(name)
        spec = self._peers.spec(run.variant, run.cases[0].stage, free_port())
        try:
            await self._session.try_start(spec, self._log(f"unmeasured-{name}"))
        except ServerFailed as error:
            self._console.print(f"[yellow]note:[/yellow] {name}: {error}", highlight=False)

    def _stopped(self, variant: str) -> set[str]:
        """Cases that once ran into their limit; another round would show the same."""
        records = read_records(self._folder / RECORDS)
        return {each.case for each in records if each.variant == variant and STOPPED in each.values}

    def _log(self, name: str) -> Path:
        """A file that no earlier start has written to."""
        return self._folder / LOGS / f"{name}-{time.strftime('%H%M%S')}.log"

    def _on_record(self, record: CaseRecord) -> None:
        append_record(self._folder / RECORDS, record)
        shown = ", ".join(
            f"{name} {' '.join(f'{value:.4g}' for value in values)}"
            for name, values in record.values.items()
        )
        self._console.print(f"  {record.case}: {shown or 'nothing'}", highlight=False)
        if record.problem:
            self._console.print(f"  [red]problem:[/red] {record.problem}", highlight=False)
