"""A simulated engine with everything a scheduling test looks at.

Owns the wiring of layout, replica, executor and event loop; tests state only what matters to
them. Times are virtual seconds.
"""

from collections.abc import Callable
from typing import Any

from okibi.control.replica import Replica
from okibi.control.stats import Counters
from okibi.core.executor import Executor
from okibi.core.ids import RequestId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.sim.checking import CheckingExecutor
from okibi.sim.cost_model import CostModel, LinearCostModel
from okibi.sim.engine import SimulatedEngine
from okibi.sim.event_loop import EventLoop
from okibi.sim.executor import SimulatedExecutor
from okibi.sim.records import RequestRecord
from tests.support.builders import make_config, make_layout

OnFinish = Callable[[RequestRecord], None]


class Simulation:
    """One engine on its own loop, or on a shared one."""

    def __init__(
        self,
        layout: KVCacheLayout | None = None,
        *,
        cost_model: CostModel | None = None,
        loop: EventLoop | None = None,
        has_ids: bool = True,
        **config: Any,
    ) -> None:
        """With `has_ids` each plan is checked; without, prompts may be segments."""
        layout = layout or make_layout()
        cost_model = cost_model or LinearCostModel(base_s=1.0)
        self.loop = loop or EventLoop()
        self.replica = Replica(make_config(**config), layout)
        self.plans: list[BatchPlan] = []
        self._checker = CheckingExecutor(cost_model=cost_model) if has_ids else None
        executor: Executor = self._checker or SimulatedExecutor(cost_model)
        executor.allocate(layout)
        self.engine = SimulatedEngine(self.loop, self.replica, executor, on_plan=self.plans.append)

    def submit(
        self, *requests: Request, at: float = 0.0, on_finish: OnFinish | None = None
    ) -> None:
        if self._checker is not None:
            for request in requests:
                self._checker.expect(request)
        self.engine.submit(*requests, at=at, on_finish=on_finish)

    def run(self) -> None:
        """Run to the end, where nothing may be left over."""
        self.engine.run()
        stats = self.replica.stats()
        assert (stats.num_running, stats.num_waiting, stats.pool.num_in_use) == (0, 0, 0)
        self.replica.check_integrity()

    def record(self, request_id: str) -> RequestRecord:
        return self.engine.records[RequestId(request_id)]

    def cached(self, request_id: str) -> int:
        num_cached = self.record(request_id).num_cached_tokens
        assert num_cached is not None
        return num_cached

    def finish(self, request_id: str) -> float:
        finish_s = self.record(request_id).finish_s
        assert finish_s is not None
        return finish_s

    @property
    def counters(self) -> Counters:
        return self.replica.stats().counters
