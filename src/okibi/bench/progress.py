"""The live line of a running replay: how far, how many in flight, what went wrong.

For people only; on something that is not a terminal it prints its last state once. Must never
slow a replay down: one cheap update per ended request.
"""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from okibi.bench.replay.records import RequestRecord
from okibi.bench.replay.scheduler import ReplayConfig, ReplayScheduler


class ReplayProgress:
    """Shows progress on a terminal; use as a context manager around the run."""

    def __init__(
        self, console: Console, scheduler: ReplayScheduler, config: ReplayConfig, num_turns: int
    ) -> None:
        """`num_turns` is the size of one pass over the workload."""
        self._scheduler = scheduler
        self._num_done = 0
        self._num_failed = 0
        self._output_tokens = 0
        self._bar = Progress(
            TextColumn("replay"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
        )
        total = config.max_turns or (num_turns if config.is_single_pass else None)
        self._task = self._bar.add_task("replay", total=total, state="starting")

    def __enter__(self) -> ReplayProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def on_record(self, record: RequestRecord) -> None:
        """Count one ended request."""
        self._num_done += 1
        self._num_failed += not record.ok
        self._output_tokens += record.result.completion_tokens or 0
        state = (
            f"{self._num_done} requests, {self._scheduler.num_in_flight} running in "
            f"{self._scheduler.num_live_trees} sessions, {self._output_tokens:,} tokens out"
        )
        if self._num_failed:
            state += f", [red]{self._num_failed} failed[/red]"
        self._bar.update(self._task, completed=self._num_done, state=state)
