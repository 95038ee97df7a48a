"""Virtual time: a heap of due events and the clock they move.

Owns the order of everything in a simulation. Events at one instant run in the order they were
scheduled; after the last of them the `after_instant` listeners act, so that a scheduler sees all
that arrived by then, as it does behind a live driver that drains its inbox first. Knows nothing
of replicas.
"""

import heapq
from collections.abc import Callable

from okibi.core.clock import VirtualClock

Event = Callable[[float], None]
"""What happens at an instant; gets the time in seconds."""


class EventLoop:
    """Runs events in the order of their time."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self._clock = clock or VirtualClock()
        self._events: list[tuple[float, int, Event]] = []
        self._num_scheduled = 0
        self._after_instant: list[Event] = []

    def now(self) -> float:
        """Seconds of virtual time."""
        return self._clock.now()

    def at(self, when: float, event: Event) -> None:
        """Let `event` happen at `when`.

        Raises:
            ValueError: `when` has passed already.
        """
        if when < self.now():
            raise ValueError(f"{when} s lies before {self.now()} s")
        heapq.heappush(self._events, (when, self._num_scheduled, event))
        self._num_scheduled += 1

    def after_instant(self, listener: Event) -> None:
        """Call `listener` whenever all events of an instant have run."""
        self._after_instant.append(listener)

    def run(self, *, until: float | None = None) -> None:
        """Run until no event is left, or until time `until`."""
        while self._events and (until is None or self._events[0][0] <= until):
            self._run_instant(self._events[0][0])
        if until is not None and until > self.now():
            self._clock.advance_to(until)

    def _run_instant(self, when: float) -> None:
        self._clock.advance_to(when)
        while self._events and self._events[0][0] == when:
            _, _, event = heapq.heappop(self._events)
            event(when)
        for listener in self._after_instant:
            listener(when)
