"""One play of a session tree: which turns are due, running or done.

A turn becomes due when all its edges are satisfied: at the latest `end(before) + gap`. Owns no
clock; every method is told `now` in seconds. Must never start a turn early, except where `advance`
skips idle time on purpose.
"""

from __future__ import annotations

import enum
import heapq

from okibi.bench.workload.tree import SessionTree, TurnNode


class _Phase(enum.Enum):
    WAITING = enum.auto()
    DUE = enum.auto()
    RUNNING = enum.auto()
    OVER = enum.auto()


class LiveTree:
    """The state of one play. `play` numbers plays over the run, `lane` is the slot it occupies."""

    def __init__(self, tree: SessionTree, *, play: int, lane: int, time_scale: float) -> None:
        self.tree = tree
        self.play = play
        self.lane = lane
        self.num_in_flight = 0
        self.idle_since_s = 0.0
        self._time_scale = time_scale
        self._num_left = len(tree.nodes)
        self._num_edges_open = [len(node.after) for node in tree.nodes]
        self._ready_at = [0.0] * len(tree.nodes)
        self._phases = [_Phase.WAITING] * len(tree.nodes)
        self._followers = _followers(tree)
        self._due: list[tuple[float, int]] = []

    def begin(self, now: float) -> None:
        """Make the turns that wait for nothing due at `now`."""
        self.idle_since_s = now
        for node in self.tree.nodes:
            if not node.after:
                self._become_due(node.index, now)

    @property
    def is_drained(self) -> bool:
        """Whether every turn is over and nothing runs."""
        return self._num_left == 0 and self.num_in_flight == 0

    @property
    def next_due_s(self) -> float | None:
        """When the next turn may start; None while all others wait for running ones."""
        return self._due[0][0] if self._due else None

    def take_due(self, now: float) -> list[tuple[TurnNode, float]]:
        """Turns to start now, each with the time it became due; they count as running."""
        taken: list[tuple[TurnNode, float]] = []
        while self._due and self._due[0][0] <= now:
            ready_at, index = heapq.heappop(self._due)
            self.num_in_flight += 1
            self._phases[index] = _Phase.RUNNING
            taken.append((self.tree.nodes[index], ready_at))
        return taken

    def end_turn(self, node: TurnNode, now: float) -> None:
        """Record the end of a running turn and free those that waited for it."""
        self.num_in_flight -= 1
        if self.num_in_flight == 0:
            self.idle_since_s = now
        self._phases[node.index] = _Phase.OVER
        self._release_followers(node.index, now)

    def abandon(self, conversation: str, now: float) -> None:
        """Give up the rest of a conversation, or of the whole session if it is the main one.

        Running turns go on. Whoever waits for an abandoned turn waits no longer.
        """
        everything = conversation == self.tree.nodes[0].conversation
        given_up = [
            node.index
            for node in self.tree.nodes
            if self._phases[node.index] in (_Phase.WAITING, _Phase.DUE)
            and (everything or node.conversation == conversation)
        ]
        for index in given_up:
            self._phases[index] = _Phase.OVER
        self._due = [entry for entry in self._due if self._phases[entry[1]] is _Phase.DUE]
        heapq.heapify(self._due)
        for index in given_up:
            self._release_followers(index, now)

    def advance(self, seconds: float, now: float) -> None:
        """Bring every pending start forward by `seconds`, but not before `now`."""
        self._ready_at = [max(now, ready_at - seconds) for ready_at in self._ready_at]
        self._due = [(self._ready_at[index], index) for _, index in self._due]
        heapq.heapify(self._due)

    def _release_followers(self, index: int, now: float) -> None:
        self._num_left -= 1
        for follower, gap_s in self._followers[index]:
            if self._phases[follower] is not _Phase.WAITING:
                continue
            allowed = now + gap_s * self._time_scale
            self._ready_at[follower] = max(self._ready_at[follower], allowed)
            self._num_edges_open[follower] -= 1
            if self._num_edges_open[follower] == 0:
                self._become_due(follower, self._ready_at[follower])

    def _become_due(self, index: int, at: float) -> None:
        self._phases[index] = _Phase.DUE
        self._ready_at[index] = at
        heapq.heappush(self._due, (at, index))


def _followers(tree: SessionTree) -> list[list[tuple[int, float]]]:
    followers: list[list[tuple[int, float]]] = [[] for _ in tree.nodes]
    for node in tree.nodes:
        for edge in node.after:
            followers[edge.before].append((node.index, edge.gap_s))
    return followers
