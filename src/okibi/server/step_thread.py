"""An executor's blocking calls, on a thread of their own.

While a step runs, the driver's thread stays free for messages. Plans go in, outputs come back
through a callback in the order of submission; a failure comes back the same way, once, and ends
the thread. The executor is used by this thread alone after the constructor.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from okibi.core.executor import Executor
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan


class StepThread:
    """Feeds plans to an executor and hands outputs to `on_output`, on the thread it owns."""

    def __init__(
        self,
        executor: Executor,
        on_output: Callable[[StepOutput], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._executor = executor
        self._on_output = on_output
        self._on_failure = on_failure
        self._plans: SimpleQueue[BatchPlan | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="okibi-steps", daemon=True)
        self._thread.start()

    def submit(self, plan: BatchPlan) -> None:
        self._plans.put(plan)

    def close(self) -> None:
        """Let outstanding steps end, then close the executor."""
        self._plans.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._run_steps()
        except Exception as error:  # noqa: BLE001 - whatever broke a step breaks the engine
            self._on_failure(error)
        finally:
            self._executor.close()

    def _run_steps(self) -> None:
        num_outstanding, is_open = 0, True
        while is_open or num_outstanding:
            for plan in self._take_plans(wait=num_outstanding == 0):
                if plan is None:
                    is_open = False
                else:
                    self._executor.submit(plan)
                    num_outstanding += 1
            if num_outstanding:
                self._on_output(self._executor.collect())
                num_outstanding -= 1

    def _take_plans(self, *, wait: bool) -> list[BatchPlan | None]:
        plans = [self._plans.get()] if wait else []
        while True:
            try:
                plans.append(self._plans.get_nowait())
            except Empty:
                return plans
