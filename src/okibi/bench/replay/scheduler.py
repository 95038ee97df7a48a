"""Which request starts when: lanes, live session trees, idle caps and the ends of a run.

Pure: told `now`, answers values, never waits. A lane plays one session tree at a time, subagents
and forks inside it, and takes the next session (in order, round and round) once the tree has
drained; concurrency therefore counts trees, not requests. Must never look at a server's answer
beyond whether the request failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.replay.live_tree import LiveTree
from okibi.bench.workload.tree import SessionTree, TurnNode
from okibi.core.errors import ConfigError

_MIN_RESULTS_BEFORE_GATE = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayConfig:
    """How to play a workload.

    Without `duration_s` and `max_turns` every session is played once; with either, lanes go round
    until the first limit. `time_scale` multiplies recorded gaps. A tree without running requests
    is advanced after `tree_idle_cap_s`, the whole replay after `idle_cap_s` (None: never).
    `max_error_share` ends the run once that share of at least max(concurrency, 10) results failed.
    """

    concurrency: int = 4
    duration_s: float | None = None
    max_turns: int | None = None
    time_scale: float = 1.0
    tree_idle_cap_s: float | None = 300.0
    idle_cap_s: float | None = 10.0
    max_error_share: float = 0.1

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError("--concurrency must be at least 1")
        if self.duration_s is not None and not self.duration_s > 0:
            raise ConfigError("--duration must be above 0")
        if self.max_turns is not None and self.max_turns < 1:
            raise ConfigError("--max-turns must be at least 1")
        for flag, value in (
            ("--time-scale", self.time_scale),
            ("--idle-cap", self.idle_cap_s),
            ("--tree-idle-cap", self.tree_idle_cap_s),
        ):
            # NaN is not at least 0 either.
            if value is not None and not value >= 0:
                raise ConfigError(f"{flag} must not be negative")

    @property
    def is_single_pass(self) -> bool:
        """Whether each session is played exactly once."""
        return self.duration_s is None and self.max_turns is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """A request to start now. `due_s` is when it was allowed to."""

    live: LiveTree
    node: TurnNode
    due_s: float


class ReplayScheduler:
    """Drive with `begin`, then `take_due` / `end_request` until `is_over`."""

    def __init__(self, trees: Sequence[SessionTree], config: ReplayConfig) -> None:
        """`trees` must not be empty."""
        self._trees = trees
        self._config = config
        self._lanes: list[LiveTree | None] = []
        self._num_plays = 0
        self._num_started = 0
        self._num_results = 0
        self._num_failed = 0
        self._deadline_s: float | None = None
        self._idle_since_s = 0.0
        self.stop_reason: str | None = None

    def begin(self, now: float) -> None:
        """Fill the lanes; a single pass uses no more lanes than there are sessions."""
        self._idle_since_s = now
        if self._config.duration_s is not None:
            self._deadline_s = now + self._config.duration_s
        for lane in range(self._config.concurrency):
            self._lanes.append(self._next_play(lane, now))

    @property
    def num_in_flight(self) -> int:
        """Requests started and not ended."""
        return sum(live.num_in_flight for live in self._live)

    @property
    def num_live_trees(self) -> int:
        """Sessions being played."""
        return len(self._live)

    @property
    def is_over(self) -> bool:
        """Whether nothing runs and nothing will start."""
        return self.num_in_flight == 0 and (self.stop_reason is not None or not self._live)

    def stop(self, reason: str) -> None:
        """Start nothing more; the first reason stays."""
        self.stop_reason = self.stop_reason or reason

    def take_due(self, now: float) -> list[Dispatch]:
        """Requests to start at `now`, earliest due first; they count as running."""
        self._check_deadline(now)
        if self.stop_reason:
            return []
        self._skip_idle_time(now)
        found = [
            Dispatch(live=live, node=node, due_s=due_s)
            for live in self._live
            for node, due_s in live.take_due(now)
        ]
        found.sort(key=lambda item: (item.due_s, item.live.play, item.node.index))
        self._num_started += len(found)
        limit = self._config.max_turns
        if limit is not None and self._num_started >= limit:
            self.stop("max_turns")
            found = self._put_back(found, self._num_started - limit, now)
        return found

    def next_wakeup(self, now: float) -> float | None:
        """When `take_due` may next have something; None: only after an `end_request`."""
        if self.stop_reason:
            return None
        self._skip_idle_time(now)
        times = [live.next_due_s for live in self._live]
        known = [time for time in times if time is not None]
        if self._deadline_s is not None:
            known.append(self._deadline_s)
        return min(known, default=None)

    def end_request(
        self, dispatch: Dispatch, now: float, *, failed: bool, ends_conversation: bool = False
    ) -> None:
        """Record an end. `ends_conversation`: its later prompts could only fail the same way."""
        live = dispatch.live
        live.end_turn(dispatch.node, now)
        if ends_conversation:
            live.abandon(dispatch.node.conversation, now)
        if self.num_in_flight == 0:
            self._idle_since_s = now
        if live.is_drained:
            self._lanes[live.lane] = self._next_play(live.lane, now)
        self._num_results += 1
        self._num_failed += failed
        enough = self._num_results >= max(self._config.concurrency, _MIN_RESULTS_BEFORE_GATE)
        if enough and self._num_failed > self._config.max_error_share * self._num_results:
            self.stop("errors")

    @property
    def _live(self) -> list[LiveTree]:
        return [live for live in self._lanes if live is not None]

    def _next_play(self, lane: int, now: float) -> LiveTree | None:
        if self._config.is_single_pass and self._num_plays >= len(self._trees):
            return None
        tree = self._trees[self._num_plays % len(self._trees)]
        live = LiveTree(tree, play=self._num_plays, lane=lane, time_scale=self._config.time_scale)
        self._num_plays += 1
        live.begin(now)
        return live

    def _check_deadline(self, now: float) -> None:
        if self._deadline_s is not None and now >= self._deadline_s:
            self.stop("duration")

    def _put_back(self, found: list[Dispatch], num_extra: int, now: float) -> list[Dispatch]:
        """Un-start the last `num_extra`: the run is stopping, nobody waits for them."""
        kept = found[: len(found) - num_extra]
        for dispatch in found[len(kept) :]:
            dispatch.live.end_turn(dispatch.node, now)
        self._num_started -= num_extra
        return kept

    def _skip_idle_time(self, now: float) -> None:
        """Apply both idle caps; all starts of an idle tree move by the same amount."""
        cap = self._config.tree_idle_cap_s
        for live in self._live:
            if cap is not None and live.num_in_flight == 0:
                _advance([live], live.idle_since_s + cap, now)
        if self._config.idle_cap_s is not None and self._live and self.num_in_flight == 0:
            _advance(self._live, self._idle_since_s + self._config.idle_cap_s, now)


def _advance(trees: list[LiveTree], latest_s: float, now: float) -> None:
    """Move the trees' starts forward together, so that the first is at `latest_s` at the latest."""
    times = [live.next_due_s for live in trees]
    first = min((time for time in times if time is not None), default=None)
    if first is not None and first > latest_s:
        for live in trees:
            live.advance(first - latest_s, now)
