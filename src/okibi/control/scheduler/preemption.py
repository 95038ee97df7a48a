"""Who has to give way when the pool is full.

The request served last goes first, and only in favour of one served before it, so that the oldest
request always makes progress.
"""

from collections.abc import Iterable

from okibi.control.scheduler.plan_builder import PlanBuilder
from okibi.control.scheduler.state import RequestState


def choose_victim(
    needy: RequestState, running: Iterable[RequestState], builder: PlanBuilder
) -> RequestState | None:
    """The request to preempt so that `needy` can grow; None if it should wait instead.

    Requests already in the plan under construction are safe. If nobody else can run either,
    `needy` itself restarts, which gives back pages whose content is cached twice.
    """
    younger = [s for s in running if s.order > needy.order and not builder.has(s)]
    if younger:
        return younger[-1]
    return needy if builder.is_empty else None
