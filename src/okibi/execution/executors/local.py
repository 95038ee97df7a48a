"""The executor of one device, in the process that drives it.

Owns the order of outputs and the turning of failures into `ExecutorError`. After one failed step
the state of the pages is unknown, so no further plan is taken.
"""

from collections import deque
from dataclasses import dataclass

import torch

from okibi.core.clock import Clock
from okibi.core.errors import ConfigError, ExecutorError
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan
from okibi.execution.models.loader import LoadedModel
from okibi.execution.runner.model_runner import ModelRunner
from okibi.execution.runner.step_result import StepResult


@dataclass(frozen=True, slots=True)
class _Outstanding:
    """A plan that was begun: its result, or its failure, and when."""

    outcome: StepResult | ExecutorError
    started_s: float


class LocalExecutor:
    """Runs plans on the CPU or on one CUDA device.

    On CUDA `submit` queues the step on the device and `collect` waits for it. On the CPU the step
    runs in `collect`, so that its output never waits for the plan behind it.
    """

    def __init__(self, model: LoadedModel, clock: Clock) -> None:
        self._model: LoadedModel | None = model
        self._clock = clock
        self._runner: ModelRunner | None = None
        self._outstanding: deque[_Outstanding | BatchPlan] = deque()
        self._failure: ExecutorError | None = None

    def allocate(self, layout: KVCacheLayout) -> None:
        """Make the arena.

        Raises:
            ConfigError: the memory is not there, or the layout is not this model's.
        """
        if self._model is None:
            raise ConfigError("the executor is closed")
        specs = {part.spec for group in layout.groups for part in group.slices}
        if specs != set(self._model.arch.kv_specs(self._model.dtype)):
            raise ConfigError("the KV layout was made for another model")
        self._runner = ModelRunner(self._model, layout)

    def submit(self, plan: BatchPlan) -> None:
        """Queue the plan.

        A failure of this step is reported by its `collect`.

        Raises:
            ExecutorError: an earlier step failed, or there is no arena.
        """
        if self._failure is not None:
            raise ExecutorError("an earlier step failed") from self._failure
        if self._runner is None:
            raise ExecutorError("the executor has no arena: allocate one first")
        is_asynchronous = self._model is not None and self._model.device.type == "cuda"
        self._outstanding.append(self._begin(plan) if is_asynchronous else plan)

    def collect(self) -> StepOutput:
        """Wait for the oldest outstanding plan.

        Raises:
            ExecutorError: the step failed, or nothing is outstanding.
        """
        if not self._outstanding:
            raise ExecutorError("no plan is outstanding")
        step = self._outstanding.popleft()
        if isinstance(step, BatchPlan):
            step = self._begin(step)
        if isinstance(step.outcome, ExecutorError):
            raise step.outcome
        try:
            rows = step.outcome.to_rows()
        except Exception as error:
            raise self._fail(error) from error
        return StepOutput(
            step_id=step.outcome.step_id,
            rows=rows,
            duration_s=self._clock.now() - step.started_s,
        )

    def close(self) -> None:
        """Free the arena and the weights. Idempotent."""
        self._runner = self._model = None
        self._outstanding.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _begin(self, plan: BatchPlan) -> _Outstanding:
        started_s = self._clock.now()
        if self._failure is not None or self._runner is None:
            return _Outstanding(ExecutorError("an earlier step failed"), started_s)
        try:
            outcome: StepResult | ExecutorError = self._runner.run(plan)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller must know
            outcome = self._fail(error)
        return _Outstanding(outcome, started_s)

    def _fail(self, error: Exception) -> ExecutorError:
        failure = error if isinstance(error, ExecutorError) else ExecutorError(_describe(error))
        failure.__cause__ = failure.__cause__ or (None if failure is error else error)
        self._failure = failure
        return failure


def _describe(error: Exception) -> str:
    return f"the step failed: {type(error).__name__}: {error}"
