"""Collects one step's plan while the scheduler decides it.

Owns the plan under construction and the states it touches. Adding a chunk advances the request
optimistically; `StepRecord` remembers what to reconcile when the step's output arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.control.scheduler.state import RequestState
from okibi.core.ids import RequestId, StepId
from okibi.core.plan import (
    AdmittedRequest,
    BatchPlan,
    BlockTableUpdate,
    PageCopy,
    ScheduledChunk,
    TokenRef,
)
from okibi.kvcache.block_table import NewPages


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A plan handed out, and the state behind each of its chunks."""

    plan: BatchPlan
    states: tuple[RequestState, ...]
    copying: tuple[RequestState, ...]


class PlanBuilder:
    """A `BatchPlan` in the making."""

    def __init__(self, step_id: StepId) -> None:
        self._step_id = step_id
        self._admitted: list[AdmittedRequest] = []
        self._updates: list[BlockTableUpdate] = []
        self._copies: list[PageCopy] = []
        self._copying: list[RequestState] = []
        self._chunks: list[ScheduledChunk] = []
        self._states: list[RequestState] = []
        self._scheduled: dict[RequestId, None] = {}
        self._num_rows = 0

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    def has(self, state: RequestState) -> bool:
        return state.request.request_id in self._scheduled

    def admit(self, admitted: AdmittedRequest, state: RequestState) -> None:
        """Introduce a request to the executor, with the copies its hit needs."""
        self._admitted.append(admitted)
        if state.allocation is not None and state.allocation.copies:
            self._copies.extend(state.allocation.copies)
            self._copying.append(state)

    def extend_tables(self, request_id: RequestId, added: Sequence[NewPages]) -> None:
        for new in added:
            self._updates.append(
                BlockTableUpdate(
                    request_id=request_id,
                    group_id=new.group_id,
                    start_block=new.start_block,
                    pages=new.pages,
                )
            )

    def add_chunk(self, state: RequestState, num_tokens: int) -> None:
        """Schedule the next `num_tokens` tokens of a request."""
        start, end = state.num_scheduled, state.num_scheduled + num_tokens
        known_end = min(end, len(state.sequence))
        samples = end == state.num_tokens and state.wants_tokens
        chunk = ScheduledChunk(
            request_id=state.request.request_id,
            start=start,
            num_tokens=num_tokens,
            tokens=state.sequence.ids(start, known_end),
            ref=state.pending_ref if known_end < end else None,
            samples=samples,
        )
        self._chunks.append(chunk)
        self._states.append(state)
        self._scheduled[chunk.request_id] = None
        state.num_scheduled = end
        state.num_inflight += 1
        if samples:
            state.pending_ref = TokenRef(step_id=self._step_id, row=self._num_rows)
            state.num_pending += 1
            self._num_rows += 1

    def build(self, finished: Sequence[RequestId]) -> StepRecord:
        plan = BatchPlan(
            step_id=self._step_id,
            admitted=tuple(self._admitted),
            table_updates=tuple(self._updates),
            copies=tuple(self._copies),
            chunks=tuple(self._chunks),
            finished=tuple(finished),
        )
        return StepRecord(plan, tuple(self._states), tuple(self._copying))
