"""The live driver's calls without a server: replica and executor step by step.

Owns the order of calls (messages, plans up to the depth, oldest output) and what came back for
each request. Time is the number of calls. It asserts only that work never stalls.
"""

from collections import defaultdict
from collections.abc import Callable

from okibi.control.replica import Replica
from okibi.core.executor import Executor
from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Message, Submit
from okibi.core.output import FinishReason, RequestOutput
from okibi.core.plan import BatchPlan
from okibi.core.request import Request


class LockstepDriver:
    """Drives one replica with one executor; what it was told is kept in `outputs`.

    `is_sound` is false after a step that raised: nothing may be concluded from what follows.
    """

    def __init__(
        self,
        replica: Replica,
        executor: Executor,
        *,
        max_inflight_steps: int = 1,
        on_plan: Callable[[BatchPlan], None] = lambda plan: None,
    ) -> None:
        self.replica = replica
        self.executor = executor
        self.outputs: dict[RequestId, list[RequestOutput]] = defaultdict(list)
        self._max_inflight_steps = max_inflight_steps
        self._on_plan = on_plan
        self._num_inflight = 0
        self._now = 0.0
        self.is_sound = True

    def send(self, message: Message) -> list[RequestOutput]:
        return self._note(self.replica.on_message(message, self._tick()))

    def submit(self, *requests: Request) -> list[RequestOutput]:
        return self.send(Submit(requests))

    def abort(self, request_id: str) -> list[RequestOutput]:
        return self.send(Abort(RequestId(request_id)))

    def step(self) -> list[RequestOutput]:
        """Fill the pipeline, then take one output back."""
        was_sound, self.is_sound = self.is_sound, False
        outputs = self._step()
        self.is_sound = was_sound
        return outputs

    def _step(self) -> list[RequestOutput]:
        while self._num_inflight < self._max_inflight_steps:
            plan = self.replica.next_plan(self._tick())
            if plan is None:
                break
            self._on_plan(plan)
            self.executor.submit(plan)
            self._num_inflight += 1
        if not self._num_inflight:
            assert not self.replica.has_work(), "requests are left, but no plan comes"
            return []
        self._num_inflight -= 1
        return self._note(self.replica.on_step(self.executor.collect(), self._tick()))

    def run(self, *, max_steps: int = 10_000) -> None:
        """Step until nothing is left to do."""
        for _ in range(max_steps):
            if not self.replica.has_work():
                return
            self.step()
        raise AssertionError(f"work is left after {max_steps} steps")

    def tokens(self, request_id: str) -> list[int]:
        outputs = self.outputs[RequestId(request_id)]
        return [token_id for output in outputs for token_id in output.token_ids]

    def finish_reason(self, request_id: str) -> FinishReason | None:
        return self.outputs[RequestId(request_id)][-1].finish_reason

    def num_cached_tokens(self, request_id: str) -> int | None:
        return self.outputs[RequestId(request_id)][-1].num_cached_tokens

    def _note(self, outputs: list[RequestOutput]) -> list[RequestOutput]:
        for output in outputs:
            self.outputs[output.request_id].append(output)
        return outputs

    def _tick(self) -> float:
        self._now += 1.0
        return self._now
