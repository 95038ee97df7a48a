"""An executor that computes nothing and believes nothing.

Owns a shadow of every page and holds each plan against it (`step_check`): a chunk may start only
where every earlier slot holds exactly the state of its own prefix, and may write only where no
other request looks and no step in flight is at work. Sampled tokens come from `FakeModel`, so an
output is right only if all the tokens it consumed were. Each plan passes through its encoding
first, which proves it to be a value. It knows nothing of how plans are made.

The work of a step is done in `submit`; `collect` hands the outputs out later, as a device would.
"""

from array import array
from collections import deque

from okibi.core.errors import ExecutorError, PlanViolation
from okibi.core.ids import RequestId, StepId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import SampledRow, StepOutput
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.sim.cost_model import CostModel, LinearCostModel, checked_step_s
from okibi.sim.fake_model import FakeModel
from okibi.sim.plan_codec import decode_plan, encode_plan
from okibi.sim.shadow import KnownTokens, ShadowArena
from okibi.sim.step_check import PagesInUse, StepCheck

_FREE_OF_CHARGE = LinearCostModel()


class CheckingExecutor:
    """Raises `PlanViolation`, with step, request, position and page, for a plan that is wrong."""

    def __init__(
        self,
        *,
        model: FakeModel | None = None,
        cost_model: CostModel = _FREE_OF_CHARGE,
        max_inflight_steps: int = 2,
    ) -> None:
        self._model = model or FakeModel()
        self._cost_model = cost_model
        self._max_inflight_steps = max_inflight_steps
        self._arena: ShadowArena | None = None
        self._expected: dict[RequestId, KnownTokens] = {}
        self._outstanding: deque[tuple[StepOutput, PagesInUse]] = deque()
        self._recent: dict[StepId, tuple[SampledRow, ...]] = {}
        self._step_id = StepId(-1)
        self._closed = False

    def expect(self, request: Request) -> None:
        """Tell the true prompt and salt of a request to come.

        With it, a hit on another prompt's content is a violation at the step that reads it;
        without it, only the output tells.
        """
        prompt = request.prompt.ids(0, len(request.prompt)) or b""
        self._expected[request.request_id] = KnownTokens(
            self._model.root(request.cache_salt), array("i", prompt), len(request.prompt)
        )

    # -- Executor --------------------------------------------------------------------------

    def allocate(self, layout: KVCacheLayout) -> None:
        self._arena = ShadowArena(layout)

    def submit(self, plan: BatchPlan) -> None:
        """Check and run a plan.

        Raises:
            PlanViolation: the plan breaks a rule; what the executor holds is undefined after it.
            ExecutorError: not allocated, closed, or too many plans outstanding.
        """
        if self._arena is None or self._closed:
            raise ExecutorError("no arena: the executor was not allocated or is closed")
        if len(self._outstanding) >= self._max_inflight_steps:
            raise ExecutorError(f"{len(self._outstanding)} steps are outstanding already")
        if decode_plan(encode_plan(plan)) != plan:
            raise PlanViolation(f"step {plan.step_id}: the plan is not a value")
        if plan.step_id <= self._step_id:
            raise PlanViolation(f"step {plan.step_id} comes after step {self._step_id}")
        self._step_id = plan.step_id
        check = StepCheck(
            self._arena,
            self._model,
            recent=self._recent,
            expected=self._expected,
            in_flight=[pages for _, pages in self._outstanding],
        )
        rows = check.run(plan)
        self._remember(plan.step_id, rows)
        seconds = checked_step_s(self._cost_model, plan)
        output = StepOutput(step_id=plan.step_id, rows=rows, duration_s=seconds)
        self._outstanding.append((output, check.pages_in_use))

    def collect(self) -> StepOutput:
        if not self._outstanding:
            raise ExecutorError("no step is outstanding")
        output, _ = self._outstanding.popleft()
        return output

    def close(self) -> None:
        self._closed = True
        self._arena = None
        self._outstanding.clear()

    def _remember(self, step_id: StepId, rows: tuple[SampledRow, ...]) -> None:
        self._recent[step_id] = rows
        while len(self._recent) > self._max_inflight_steps:
            del self._recent[next(iter(self._recent))]
