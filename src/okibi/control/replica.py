"""One engine's state machine: messages and step outputs in, plans and request outputs out.

It performs no I/O, sees no executor and reads no clock. A driver feeds it:

    for message in inbox:   outputs = replica.on_message(message, now)
    plan = replica.next_plan(now)           -> executor.submit(plan)
    step = executor.collect()               -> outputs = replica.on_step(step, now)

The same messages, outputs and times in the same order give byte-identical plans.
"""

from collections import deque
from collections.abc import Iterator

from okibi.control.config import ReplicaConfig
from okibi.control.judge import judge_token
from okibi.control.scheduler.admission import AdmissionLimits, Load
from okibi.control.scheduler.plan_builder import StepRecord
from okibi.control.scheduler.queue import QUEUE_POLICIES
from okibi.control.scheduler.scheduler import Scheduler
from okibi.control.scheduler.state import RequestState, Status
from okibi.control.stats import Counters, ReplicaStats
from okibi.core.chain_hash import root_digest
from okibi.core.ids import RequestId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.messages import Abort, Drain, Message, ResetPrefixCache, Submit
from okibi.core.output import (
    FinishReason,
    Rejection,
    RejectReason,
    RequestOutput,
    SampledRow,
    StepOutput,
)
from okibi.core.plan import BatchPlan, ScheduledChunk
from okibi.core.request import Request
from okibi.core.token_source import TokenSequence
from okibi.kvcache.chain_memo import ChainMemo
from okibi.kvcache.manager import KVCacheManager


class Replica:
    """Requests of one engine from arrival to end."""

    def __init__(self, config: ReplicaConfig, layout: KVCacheLayout) -> None:
        self._config = config
        self._unit = layout.prefix_match_unit
        self._servable_len = config.servable_len(layout)
        self._limits = AdmissionLimits(
            servable_len=self._servable_len,
            max_unfinished=config.max_unfinished,
            max_waiting_tokens=config.max_num_queued_tokens,
        )
        self._kv_cache = KVCacheManager(layout, eviction_policy=config.eviction_policy)
        self._counters = Counters()
        self._scheduler = Scheduler(config, layout, self._kv_cache, self._counters)
        self._memo = ChainMemo(unit=self._unit)
        self._states: dict[RequestId, RequestState] = {}
        self._inflight: deque[StepRecord] = deque()
        self._num_arrivals = 0
        self._is_draining = False

    @property
    def max_model_len(self) -> int:
        """Tokens of the longest sequence that can really be served."""
        return self._servable_len

    def has_work(self) -> bool:
        """Whether a request is unfinished or a step in flight."""
        return bool(self._states or self._inflight)

    # -- messages --------------------------------------------------------------------------

    def on_message(self, message: Message, now: float) -> list[RequestOutput]:
        """Handle one message; returns acknowledgements, rejections and final outputs."""
        match message:
            case Submit(requests):
                return self._submit(requests)
            case Abort(request_id):
                return self._abort(request_id, now)
            case Drain():
                self._is_draining = True
            case ResetPrefixCache():
                self._kv_cache.reset()
        return []

    def _submit(self, requests: tuple[Request, ...]) -> list[RequestOutput]:
        rejection = self._judge(requests)
        if rejection is not None:
            self._counters.num_rejected += len(requests)
            return [_rejected(request.request_id, rejection) for request in requests]
        for request in requests:
            self._enter(request)
        return [RequestOutput(request_id=request.request_id) for request in requests]

    def _judge(self, requests: tuple[Request, ...]) -> Rejection | None:
        if self._is_draining:
            return Rejection(
                reason=RejectReason.DRAINING,
                message="The server is shutting down.",
                retry_after_s=self._limits.retry_after_s,
            )
        ids = [request.request_id for request in requests]
        if len(set(ids)) < len(ids) or any(request_id in self._states for request_id in ids):
            return Rejection(
                reason=RejectReason.INVALID, message="a request with this id is running"
            )
        load = Load(
            num_unfinished=len(self._states),
            num_waiting_tokens=self._scheduler.waiting.num_prompt_tokens,
        )
        return self._limits.judge(requests, load)

    def _enter(self, request: Request) -> None:
        root = root_digest(self._config.model_fingerprint, request.cache_salt)
        sequence = TokenSequence(request.prompt, unit=self._unit, root=root)
        if request.conversation:
            self._memo.recall(request.conversation, sequence)
            self._memo.remember(request.conversation, sequence)
        policy = QUEUE_POLICIES[self._config.scheduling_policy]
        state = RequestState(
            request=request, sequence=sequence, order=policy(request, self._num_arrivals)
        )
        self._num_arrivals += 1
        self._counters.prompt_tokens += len(request.prompt)
        self._states[request.request_id] = state
        self._scheduler.waiting.add(state)

    def _abort(self, request_id: RequestId, now: float) -> list[RequestOutput]:
        state = self._states.get(request_id)
        if state is None:
            return []
        self._finish(state, FinishReason.ABORT, now)
        return [RequestOutput(request_id=request_id, finish_reason=FinishReason.ABORT)]

    # -- steps -----------------------------------------------------------------------------

    def next_plan(self, now: float) -> BatchPlan | None:
        """The next step's plan; None if there is nothing to do, or enough is in flight."""
        if len(self._inflight) >= self._config.max_inflight_steps:
            return None
        record = self._scheduler.schedule(now)
        if record is None:
            return None
        self._inflight.append(record)
        return record.plan

    def on_step(self, output: StepOutput, now: float) -> list[RequestOutput]:
        """Reconcile the oldest step in flight with what it really yielded."""
        record = self._inflight.popleft()
        if output.step_id != record.plan.step_id:
            raise ValueError(f"step {record.plan.step_id} expected, got {output.step_id}")
        self._counters.num_steps += 1
        for state in record.copying:
            if state.allocation is not None:
                self._kv_cache.copies_done(state.allocation, now)
        rows = iter(output.rows)
        outputs: list[RequestOutput] = []
        for chunk, state in zip(record.plan.chunks, record.states, strict=True):
            news = self._reconcile(state, chunk, rows, now)
            if news is not None:
                outputs.append(news)
        return outputs

    def _reconcile(
        self, state: RequestState, chunk: ScheduledChunk, rows: Iterator[SampledRow], now: float
    ) -> RequestOutput | None:
        row = next(rows) if chunk.samples else None
        state.num_inflight -= 1
        self._counters.computed_tokens += chunk.num_tokens
        news = None
        if row is not None and state.finish_reason is None:
            news = self._take_row(state, row)
        is_broken = FinishReason.ERROR in (state.finish_reason, news and news.finish_reason)
        state.num_confirmed = 0 if is_broken else min(chunk.end, len(state.sequence))
        if news is not None and news.finish_reason is not None:
            self._finish(state, news.finish_reason, now)
        elif state.status is Status.RUNNING and state.allocation is not None:
            self._kv_cache.publish(state.allocation, state.sequence, state.num_confirmed)
        self._scheduler.settle(state, now)
        return news

    def _take_row(self, state: RequestState, row: SampledRow) -> RequestOutput:
        if row.request_id != state.request.request_id:
            raise ValueError(f"row of {row.request_id} where {state.request.request_id} belongs")
        state.num_pending -= 1
        if row.error is not None:
            return RequestOutput(
                request_id=row.request_id, finish_reason=FinishReason.ERROR, error=row.error
            )
        taken, reason = 0, None
        for token_id in row.token_ids:
            state.sequence.append(token_id)
            taken += 1
            reason = judge_token(state, token_id, self._config.eos_token_ids)
            if reason is not None:
                break
        self._counters.generation_tokens += taken
        return RequestOutput(
            request_id=row.request_id,
            token_ids=row.token_ids[:taken],
            logprobs=row.logprobs[:taken],
            finish_reason=reason,
            num_cached_tokens=state.num_cached_tokens,
        )

    def _finish(self, state: RequestState, reason: FinishReason, now: float) -> None:
        state.finish_reason = reason
        self._counters.finished[reason] += 1
        del self._states[state.request.request_id]
        if state.status is Status.RUNNING:
            self._scheduler.retire(state, now)
        elif state.status is Status.WAITING:
            self._scheduler.waiting.remove(state)
            state.status = Status.GONE

    # -- observation -----------------------------------------------------------------------

    def stats(self) -> ReplicaStats:
        """A snapshot of counters and levels."""
        return ReplicaStats(
            num_running=len(self._scheduler.running),
            num_waiting=len(self._scheduler.waiting) + len(self._scheduler.leaving),
            num_waiting_tokens=self._scheduler.waiting.num_prompt_tokens,
            pool=self._kv_cache.stats(),
            counters=self._counters.copy(),
        )

    def check_integrity(self) -> None:
        """Verify that every page has exactly one owner.

        Raises:
            AssertionError: a page is owned twice or by nobody.
        """
        states = self._scheduler.states()
        self._kv_cache.check([s.allocation for s in states if s.allocation is not None])


def _rejected(request_id: RequestId, rejection: Rejection) -> RequestOutput:
    return RequestOutput(
        request_id=request_id, finish_reason=FinishReason.REJECTED, rejection=rejection
    )
