"""Nobody is passed by a less urgent request, whatever arrives when.

Random requests meet a replica that has few seats and few pages, so that they queue and preempt
each other. Prompts have nothing in common: only waiting for another's prefix excuses being passed.
"""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from okibi.core.ids import RequestId
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.sim.checking import CheckingExecutor
from tests.support.builders import make_layout, make_replica, make_request
from tests.support.lockstep import LockstepDriver


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, and how many steps after the one before it comes."""

    num_steps_before: int
    priority: int
    num_prompt_tokens: int
    max_tokens: int


ARRIVALS = st.lists(
    st.builds(
        Arrival, st.integers(0, 6), st.integers(0, 3), st.integers(1, 30), st.integers(1, 12)
    ),
    min_size=2,
    max_size=12,
)


class Queue:
    """Who waits, as the plans and outputs tell it."""

    def __init__(self) -> None:
        self.priority_of: dict[RequestId, int] = {}
        self._unfinished: set[RequestId] = set()
        self._waiting: set[RequestId] = set()

    def arrive(self, request: Request) -> None:
        self.priority_of[request.request_id] = request.priority
        self._unfinished.add(request.request_id)
        self._waiting.add(request.request_id)

    def finish(self, request_id: RequestId) -> None:
        self._unfinished.discard(request_id)

    def check(self, plan: BatchPlan) -> None:
        """A request that a plan lets go before its end was preempted and waits again."""
        self._waiting.update(self._unfinished.intersection(plan.finished))
        admitted = [one.request_id for one in plan.admitted]
        self._waiting.difference_update(admitted)
        most_urgent = min((self.priority_of[one] for one in self._waiting), default=None)
        for request_id in admitted:
            assert most_urgent is None or self.priority_of[request_id] <= most_urgent


@given(
    arrivals=ARRIVALS,
    max_num_seqs=st.integers(1, 3),
    num_pages=st.integers(12, 24),
    depth=st.sampled_from([1, 2]),
)
def test_a_request_is_never_passed_by_a_less_urgent_one(
    arrivals: list[Arrival], max_num_seqs: int, num_pages: int, depth: int
):
    layout = make_layout(num_pages=num_pages, block_tokens=4)
    replica = make_replica(
        layout,
        scheduling_policy="priority",
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=16,
        max_inflight_steps=depth,
    )
    executor, queue = CheckingExecutor(max_inflight_steps=depth), Queue()
    executor.allocate(layout)
    driver = LockstepDriver(replica, executor, max_inflight_steps=depth, on_plan=queue.check)

    def step() -> None:
        for output in driver.step():
            if output.finish_reason is not None:
                queue.finish(output.request_id)

    for index, arrival in enumerate(arrivals):
        for _ in range(arrival.num_steps_before):
            step()
        request = make_request(
            f"r{index}",
            arrival.num_prompt_tokens,
            max_tokens=arrival.max_tokens,
            priority=arrival.priority,
        )
        queue.arrive(request)
        driver.submit(request)
    while replica.has_work():
        step()
