"""The seam between deciding and doing.

Behind `Executor` stand the real executors (torch), the simulated one (a cost model prices the
plan) and the checking one (a shadow of every page). One contract suite holds them equal:
`tests/contract/test_executor.py`. A caller cannot tell which it drives.
"""

from typing import Protocol

from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan


class Executor(Protocol):
    """Runs plans in order.

    `submit` may return before the step ran; `collect` gives the outputs back in the order of
    submission, one for each plan. At most as many plans may be outstanding as the driver's
    `max_inflight_steps`.
    """

    def allocate(self, layout: KVCacheLayout) -> None:
        """Make the arena. Called once, before the first plan.

        Raises:
            ConfigError: the memory is not there.
        """
        ...

    def submit(self, plan: BatchPlan) -> None:
        """Take the next plan.

        Raises:
            ExecutorError: the executor can run no more plans.
        """
        ...

    def collect(self) -> StepOutput:
        """Wait for the oldest outstanding plan and return its output.

        Raises:
            ExecutorError: the step failed, or nothing is outstanding.
        """
        ...

    def close(self) -> None:
        """Free everything. Idempotent."""
        ...
