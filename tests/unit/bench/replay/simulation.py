"""Plays a scheduler against servers of any speed, in virtual time."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from okibi.bench.replay.scheduler import Dispatch, ReplayConfig, ReplayScheduler
from okibi.bench.workload.tree import SessionTree


@dataclass(frozen=True)
class Played:
    """One request of a simulated replay."""

    dispatch: Dispatch
    start: float
    end: float
    num_live_trees: int

    @property
    def key(self) -> tuple[int, int]:
        return self.dispatch.live.play, self.dispatch.node.index


def play(
    trees: Sequence[SessionTree],
    config: ReplayConfig,
    service_s: Callable[[int], float],
    outcome: Callable[[int], tuple[bool, bool]] = lambda number: (False, False),
) -> tuple[list[Played], ReplayScheduler]:
    """Replay to the end. Request number i takes `service_s(i)` and ends as `outcome(i)` says."""
    scheduler = ReplayScheduler(trees, config)
    now, number = 100.0, 0
    running: list[tuple[float, int, Dispatch]] = []
    played: list[Played] = []
    scheduler.begin(now)
    while not scheduler.is_over:
        for dispatch in scheduler.take_due(now):
            end = now + service_s(number)
            played.append(Played(dispatch, now, end, scheduler.num_live_trees))
            heapq.heappush(running, (end, number, dispatch))
            number += 1
        if scheduler.is_over:
            break
        wakeup = scheduler.next_wakeup(now)
        times = [time for time in (wakeup, running[0][0] if running else None) if time is not None]
        assert times, "nothing runs and nothing is due: the replay would hang"
        now = max(now, min(times))
        while running and running[0][0] <= now:
            _, which, dispatch = heapq.heappop(running)
            failed, ends = outcome(which)
            scheduler.end_request(dispatch, now, failed=failed, ends_conversation=ends)
    return played, scheduler
