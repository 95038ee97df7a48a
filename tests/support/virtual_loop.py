"""An asyncio loop in virtual time, so that a test of a long wait takes no time and has no luck.

Whenever nothing is left to do now, the clock jumps to the next timer. For code without threads and
with sockets only to itself.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Hands the time it would have waited to `jump`."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "everything waits for something that will never happen"
            self.jump(timeout)
        return events


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now_s = 0.0
        selector = _JumpingSelector()
        selector.jump = self._jump
        super().__init__(selector)

    def time(self) -> float:
        return self._now_s

    def _jump(self, seconds: float) -> None:
        self._now_s += seconds


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`, run on a clock that starts at 0 and never makes anyone wait."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)
