"""`okibi bench replay`: puts workload, text, client and scheduler together for one run.

Everything is checked before the first request: the server answers, the model is served, the
traces are sound. Ctrl-C ends the run, never the report. Must never compute a figure or decide
what starts when.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from okibi.bench.http import ServedModel, ServerApi
from okibi.bench.metrics import compute_metrics, find_warnings
from okibi.bench.progress import ReplayProgress
from okibi.bench.replay.client import StreamClient
from okibi.bench.replay.driver import ReplayDriver
from okibi.bench.replay.player import Player, PlayerConfig
from okibi.bench.replay.records import RequestRecord
from okibi.bench.replay.scheduler import ReplayScheduler
from okibi.bench.replay_options import ReplayOptions
from okibi.bench.report import ReplayReport
from okibi.bench.text.counting import FileTokenCounter, ServerTokenCounter
from okibi.bench.text.synthesis import TextSynthesizer
from okibi.bench.text.vocabulary import Vocabulary, assumed_vocabulary, measured_vocabulary
from okibi.bench.workload.load import load_workload
from okibi.bench.workload.summary import WorkloadSummary, summarize
from okibi.bench.workload.tree import SessionTree, build_tree
from okibi.core.clock import Clock

_PLANNED_ENDS = ("completed", "duration", "max_turns")
_TEMPLATE_MARGIN = 0.98
"""Share of a model's context that recorded tokens may fill; the chat template takes the rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayRun:
    """A finished or interrupted replay, with its records in order of their end."""

    report: ReplayReport
    records: list[RequestRecord]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What a run does, all checks passed."""

    trees: list[SessionTree]
    summary: WorkloadSummary
    model: ServedModel
    vocabulary: Vocabulary
    notes: list[str]


async def run_replay(options: ReplayOptions, clock: Clock, console: Console) -> ReplayRun:
    """Check everything, replay, report. Raises OkibiError, and only before the first request."""
    config = options.replay_config
    async with ServerApi(options.url, options.api_key) as api:
        plan = await _plan(options, api)
        _announce(plan, api.base, console)
        scheduler = ReplayScheduler(plan.trees, config)
        url = f"{api.base}/v1/chat/completions"
        client = StreamClient(api.session, url, clock, options.timeout)
        player = Player(
            client,
            TextSynthesizer(plan.vocabulary, options.seed),
            PlayerConfig(
                model=plan.model.name, run_id=_run_id(clock), cache_bust=options.cache_bust
            ),
        )
        records: list[RequestRecord] = []
        with ReplayProgress(console, scheduler, config, plan.summary.num_turns) as progress:
            driver = ReplayDriver(
                scheduler,
                player,
                clock,
                grace_s=options.grace,
                on_record=_both(records.append, progress.on_record),
            )
            await _run_interruptible(driver)
    return ReplayRun(
        report=_report(options, plan, scheduler.stop_reason or "completed", records),
        records=records,
    )


async def _plan(options: ReplayOptions, api: ServerApi) -> _Plan:
    workload = load_workload(options.traces, options.load_config)
    trees = [build_tree(trace) for trace in workload.traces]
    model = await api.find_model(options.model)
    notes = _notes(workload.num_dropped, model, trees)
    vocabulary = await _choose_vocabulary(options.tokenizer, api, model.name)
    return _Plan(
        trees=trees, summary=summarize(trees), model=model, vocabulary=vocabulary, notes=notes
    )


async def _choose_vocabulary(tokenizer: Path | None, api: ServerApi, model: str) -> Vocabulary:
    """The best source at hand: a tokenizer file, the server's /tokenize, an assumption."""
    if tokenizer is not None:
        return await measured_vocabulary(FileTokenCounter(tokenizer), str(tokenizer))
    counter = ServerTokenCounter(api, model)
    if await counter.try_count("probe") is not None:
        return await measured_vocabulary(counter, "the server's /tokenize")
    return assumed_vocabulary()


def _notes(num_dropped: int, model: ServedModel, trees: list[SessionTree]) -> list[str]:
    notes: list[str] = []
    if num_dropped:
        notes.append(f"{num_dropped} sessions were dropped by --max-context")
    limit = model.max_context_tokens
    if limit is not None:
        room = int(limit * _TEMPLATE_MARGIN)
        num_long = sum(tree.peak_context_tokens > room for tree in trees)
        if num_long:
            notes.append(
                f"{num_long} of {len(trees)} sessions outgrow the model's context of {limit:,} "
                f"tokens and will end early; --max-context {room} drops them, --scale-tokens "
                "shrinks them"
            )
    return notes


def _announce(plan: _Plan, base: str, console: Console) -> None:
    summary = plan.summary
    console.print(
        f"{summary.num_sessions} sessions, {summary.num_turns} turns "
        f"({summary.num_forks} forks, {summary.num_subagents} subagents), "
        f"{summary.input_tokens:,} input and {summary.output_tokens:,} output tokens\n"
        f"against {plan.model.name} at {base}; token counts: {plan.vocabulary.source}",
        highlight=False,
        soft_wrap=True,
    )
    for note in plan.notes:
        console.print(f"[yellow]note:[/yellow] {note}", highlight=False, soft_wrap=True)


async def _run_interruptible(driver: ReplayDriver) -> None:
    """Run; the first Ctrl-C or SIGTERM ends the replay in order, a second one ends the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt() -> None:
        _remove_handlers(loop, signals)
        driver.stop_now("interrupted")

    with suppress(NotImplementedError, RuntimeError):  # no handlers here: Ctrl-C just ends it
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    try:
        await driver.run()
    finally:
        _remove_handlers(loop, signals)


def _remove_handlers(loop: asyncio.AbstractEventLoop, signals: tuple[signal.Signals, ...]) -> None:
    with suppress(NotImplementedError, RuntimeError):
        for number in signals:
            loop.remove_signal_handler(number)


def _report(
    options: ReplayOptions, plan: _Plan, stop_reason: str, records: list[RequestRecord]
) -> ReplayReport:
    metrics = compute_metrics(records)
    return ReplayReport(
        stop_reason=stop_reason,
        partial=stop_reason not in _PLANNED_ENDS,
        options=_shown(options, plan),
        workload=asdict(plan.summary),
        metrics=metrics,
        warnings=[*plan.notes, *find_warnings(metrics, records)],
    )


def _shown(options: ReplayOptions, plan: _Plan) -> dict[str, Any]:
    """The options as given, less the secret one, plus what was chosen for the rest."""
    given = {field.name: getattr(options, field.name) for field in fields(options)}
    del given["api_key"]
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in given.items()}
    return {**plain, "model": plan.model.name, "token_counts": plan.vocabulary.source}


def _run_id(clock: Clock) -> str:
    """An id that no other run has: two runs never send the same marker."""
    return hashlib.sha256(f"{clock.unix_time_s():.9f}:{clock.now():.9f}".encode()).hexdigest()[:16]


def _both(
    first: Callable[[RequestRecord], None], second: Callable[[RequestRecord], None]
) -> Callable[[RequestRecord], None]:
    def call(record: RequestRecord) -> None:
        first(record)
        second(record)

    return call
