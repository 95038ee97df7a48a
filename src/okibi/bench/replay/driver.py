"""The asyncio shell around the scheduler: starts what is due, waits, reports ends.

Stopping: the scheduler's own limits let running requests finish within a grace period; `stop_now`
(Ctrl-C) ends them at once. Either way every request that went out yields a record. Must never
decide what may start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from okibi.bench.replay.player import Player
from okibi.bench.replay.records import RequestRecord
from okibi.bench.replay.scheduler import Dispatch, ReplayScheduler
from okibi.core.clock import Clock

OnRecord = Callable[[RequestRecord], None]


class ReplayDriver:
    """Runs one replay to its end."""

    def __init__(
        self,
        scheduler: ReplayScheduler,
        player: Player,
        clock: Clock,
        *,
        grace_s: float,
        on_record: OnRecord,
    ) -> None:
        """`grace_s` is how long running requests may go on after a limit ended the run."""
        self._scheduler = scheduler
        self._player = player
        self._clock = clock
        self._grace_s = grace_s
        self._on_record = on_record
        self._running: dict[asyncio.Task[RequestRecord], Dispatch] = {}
        self._defect: BaseException | None = None
        self._wake = asyncio.Event()
        self._grace_end_s: float | None = None

    async def run(self) -> None:
        """Play until the scheduler is over. Call once."""
        self._scheduler.begin(self._clock.now())
        while not self._scheduler.is_over:
            self._wake.clear()
            for dispatch in self._scheduler.take_due(self._clock.now()):
                task = asyncio.create_task(self._player.send(dispatch))
                self._running[task] = dispatch
                task.add_done_callback(self._on_end)
            self._enforce_grace(self._clock.now())
            if not self._scheduler.is_over:
                await self._wait()
        if self._defect is not None:
            raise self._defect

    def stop_now(self, reason: str) -> None:
        """Start nothing more and end what runs; `run` returns soon. Safe in a signal handler."""
        self._scheduler.stop(reason)
        for task in list(self._running):
            task.cancel()
        self._wake.set()

    def _on_end(self, task: asyncio.Task[RequestRecord]) -> None:
        dispatch = self._running.pop(task)
        self._wake.set()
        if task.cancelled():  # before it went out
            self._scheduler.end_request(dispatch, self._clock.now(), failed=False)
        elif (defect := task.exception()) is not None:
            self._defect = self._defect or defect
            self._scheduler.end_request(dispatch, self._clock.now(), failed=True)
            self.stop_now("defect")
        else:
            self._record(dispatch, task.result())

    def _record(self, dispatch: Dispatch, record: RequestRecord) -> None:
        failure = record.result.failure
        kind = failure.kind if failure is not None else None
        self._scheduler.end_request(
            dispatch,
            record.result.end_s,
            failed=kind not in (None, "cancelled"),
            ends_conversation=kind == "context_overflow",
        )
        if dispatch.live.is_drained:
            self._player.forget(dispatch.live.play)
        self._on_record(record)

    def _enforce_grace(self, now: float) -> None:
        if self._scheduler.stop_reason is None:
            return
        if self._grace_end_s is None:
            self._grace_end_s = now + self._grace_s
        if now >= self._grace_end_s:
            for task in list(self._running):
                task.cancel()

    async def _wait(self) -> None:
        now = self._clock.now()
        wakeup = self._scheduler.next_wakeup(now)
        if self._scheduler.stop_reason is not None and self._grace_end_s is not None:
            wakeup = max(self._grace_end_s, now + 0.1)
        timeout = None if wakeup is None else max(0.0, wakeup - now)
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
