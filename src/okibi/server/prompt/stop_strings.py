"""Ends a text at the first stop string, and lets no part of one out before.

A stop string ends the text where it is first complete, whatever the pieces the text arrives in.
Text that may still become a stop string is held back and released when it cannot.
"""

from collections.abc import Sequence


class StopStrings:
    """Watches one growing text."""

    def __init__(self, stops: Sequence[str]) -> None:
        """`stops` must not contain the empty string."""
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def push(self, text: str) -> str:
        """The text that may go out now. Nothing after a stop."""
        if self._is_stopped:
            return ""
        if not self._stops:
            return text
        held = self._held + text
        match = self._first_stop(held)
        if match is not None:
            self._held, self._is_stopped = "", True
            return held[:match]
        keep = self._num_pending(held)
        split = len(held) - keep
        self._held = held[split:]
        return held[:split]

    def release(self) -> str:
        """What is held back, when nothing more will come or stops do not count yet."""
        held, self._held = self._held, ""
        return held

    def _first_stop(self, text: str) -> int | None:
        """Where the stop string that is complete first begins."""
        found = [
            (start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0
        ]
        return min(found)[1] if found else None

    def _num_pending(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
