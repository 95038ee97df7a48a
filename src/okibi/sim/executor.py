"""An executor on modelled hardware.

Owns how long each step takes, by a cost model, and which tokens come out, by a function of
request and position; no token ids are needed, so prompts may be mere segments. A plan that it
cannot price or answer is an error, never free. It holds no KV and checks none: that is
`checking`'s work.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

from okibi.core.errors import ExecutorError
from okibi.core.ids import RequestId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import SampledRow, StepOutput
from okibi.core.plan import AdmittedRequest, BatchPlan, ScheduledChunk
from okibi.sim.cost_model import CostModel, checked_step_s

TokenFunction = Callable[[RequestId, int], int]
"""The token at a position of a request."""

_VOCAB_SIZE = 32_000


def hashed_token(request_id: RequestId, position: int) -> int:
    """A token that depends on nothing but its place."""
    digest = blake2b(f"{request_id}\0{position}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % _VOCAB_SIZE


class SimulatedExecutor:
    """Prices plans; `StepOutput.duration_s` is the modelled time of the step."""

    def __init__(
        self,
        cost_model: CostModel,
        *,
        token_function: TokenFunction = hashed_token,
        max_inflight_steps: int = 2,
    ) -> None:
        self._cost_model = cost_model
        self._token_function = token_function
        self._max_inflight_steps = max_inflight_steps
        self._is_open = False
        self._admitted: dict[RequestId, AdmittedRequest] = {}
        self._outstanding: deque[StepOutput] = deque()

    def allocate(self, layout: KVCacheLayout) -> None:
        self._is_open = True

    def submit(self, plan: BatchPlan) -> None:
        """Price a plan and name its tokens.

        Raises:
            ExecutorError: not allocated, closed, too many plans outstanding, or a plan that has
                no price or no answer.
        """
        if not self._is_open:
            raise ExecutorError("the executor was not allocated or is closed")
        if len(self._outstanding) >= self._max_inflight_steps:
            raise ExecutorError(f"{len(self._outstanding)} steps are outstanding already")
        for request_id in plan.finished:
            self._admitted.pop(request_id, None)
        self._admitted.update({admitted.request_id: admitted for admitted in plan.admitted})
        rows = tuple(self._sample(chunk) for chunk in plan.chunks if chunk.samples)
        seconds = checked_step_s(self._cost_model, plan)
        self._outstanding.append(StepOutput(step_id=plan.step_id, rows=rows, duration_s=seconds))

    def collect(self) -> StepOutput:
        if not self._outstanding:
            raise ExecutorError("no step is outstanding")
        return self._outstanding.popleft()

    def close(self) -> None:
        self._is_open = False
        self._outstanding.clear()
        self._admitted.clear()

    def _sample(self, chunk: ScheduledChunk) -> SampledRow:
        admitted = self._admitted.get(chunk.request_id)
        if admitted is None:
            raise ExecutorError(f"request {chunk.request_id!r} was not admitted")
        if chunk.drafts or admitted.sampling.logprobs is not None:
            raise ExecutorError("drafts and logprobs are not modelled")
        token_id = self._token_function(chunk.request_id, chunk.end)
        num_output = chunk.end - admitted.num_prompt_tokens
        if num_output < admitted.sampling.min_tokens:
            while token_id in admitted.stop_ids:
                token_id = (token_id + 1) % _VOCAB_SIZE
        return SampledRow(request_id=chunk.request_id, token_ids=(token_id,))
