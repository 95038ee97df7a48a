"""Time, as a value that is handed around.

The only module that may read the system clock. Decisions take `now` as an argument; drivers own
a `Clock`: the wall clock when serving, a virtual one when simulating. Nothing else in okibi may
call the functions of `time`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of seconds."""

    def now(self) -> float:
        """Seconds on a scale that never goes back; only differences have a meaning."""
        ...

    def unix_time_s(self) -> float:
        """Seconds since 1970-01-01 UTC, for timestamps that leave the process."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.monotonic()

    def unix_time_s(self) -> float:
        return time.time()


class VirtualClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def unix_time_s(self) -> float:
        return self._now

    def advance_to(self, now: float) -> None:
        """Move to `now`.

        Raises:
            ValueError: `now` lies in the past.
        """
        if now < self._now:
            raise ValueError(f"time cannot go back from {self._now} to {now}")
        self._now = now
