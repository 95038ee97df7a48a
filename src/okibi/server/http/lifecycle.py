"""Whether the server takes new work, and how it stops.

Draining refuses new generations at once and lets running ones finish. Owns no signal handler and
no socket.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from okibi.server.http.errors import unavailable

RETRY_AFTER_S = 5.0


class Lifecycle:
    """Counts the calls being answered, and closes the door."""

    def __init__(self) -> None:
        self._num_open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_draining = False

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def enter(self) -> None:
        """Count a call in.

        Raises:
            ApiError: 503, when draining.
        """
        if self._is_draining:
            raise unavailable("The server is shutting down.", "draining", RETRY_AFTER_S)
        self._num_open += 1
        self._idle.clear()

    def leave(self) -> None:
        """Count a call out."""
        self._num_open -= 1
        if self._num_open == 0:
            self._idle.set()

    @contextmanager
    def call(self) -> Iterator[None]:
        """`enter` and `leave` around a block."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def begin_drain(self) -> None:
        self._is_draining = True

    async def wait_idle(self, timeout_s: float) -> bool:
        """Whether every call ended within `timeout_s`."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True
