"""Requests that wait, in the order of a policy.

A queue policy turns a request and its arrival number into a sort key, smallest first. A preempted
request keeps its key and so comes back to the place it had.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from okibi.control.scheduler.state import RequestState
from okibi.core.request import Request

QueuePolicy = Callable[[Request, int], tuple[int, int]]


def first_come(request: Request, arrival: int) -> tuple[int, int]:
    """Order of arrival."""
    return (0, arrival)


def by_priority(request: Request, arrival: int) -> tuple[int, int]:
    """Smaller priority value first, then order of arrival."""
    return (request.priority, arrival)


QUEUE_POLICIES: dict[str, QueuePolicy] = {"fcfs": first_come, "priority": by_priority}


def by_order(state: RequestState) -> tuple[int, int]:
    """Sort key of a state."""
    return state.order


class OrderedStates:
    """States sorted by their `order`, with the number of prompt tokens they hold."""

    def __init__(self) -> None:
        self._states: list[RequestState] = []
        self._num_prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[RequestState]:
        return iter(self._states)

    @property
    def num_prompt_tokens(self) -> int:
        return self._num_prompt_tokens

    def add(self, state: RequestState) -> None:
        insort(self._states, state, key=by_order)
        self._num_prompt_tokens += state.num_prompt_tokens

    def remove(self, state: RequestState) -> None:
        index = bisect_left(self._states, state.order, key=by_order)
        removed = self._states.pop(index)
        assert removed is state
        self._num_prompt_tokens -= state.num_prompt_tokens
