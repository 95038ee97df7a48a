"""Decides what the next step computes.

Every step serves first the requests that need one token to go on, then gives what is left of the
token budget to prompts: those already running and, in the order of the queue policy, those that
wait. Owns the waiting and running requests and drives the KV-cache manager; it neither judges
outputs nor talks to anyone.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from okibi.control.config import ReplicaConfig
from okibi.control.scheduler.chunking import Demand, divide
from okibi.control.scheduler.plan_builder import PlanBuilder, StepRecord
from okibi.control.scheduler.preemption import choose_victim
from okibi.control.scheduler.prefix_wait import PrefixWaitRule
from okibi.control.scheduler.queue import OrderedStates
from okibi.control.scheduler.state import RequestState, Status
from okibi.control.stats import Counters
from okibi.core.ids import RequestId, StepId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import AdmittedRequest
from okibi.kvcache.block_table import NewPages
from okibi.kvcache.manager import KVCacheManager, Match

MAX_PROSPECTS = 64


class _Running(NamedTuple):
    """A running request whose prompt is not computed yet."""

    state: RequestState

    @property
    def num_remaining(self) -> int:
        return self.state.num_remaining


class _Prospect(NamedTuple):
    """A waiting request that could start now, and what it would hit."""

    state: RequestState
    match: Match

    @property
    def num_remaining(self) -> int:
        return self.state.num_tokens - self.match.num_tokens


class Scheduler:
    """Waiting and running requests of one replica."""

    def __init__(
        self,
        config: ReplicaConfig,
        layout: KVCacheLayout,
        kv_cache: KVCacheManager,
        counters: Counters,
    ) -> None:
        self._config = config
        self._wait_rule = PrefixWaitRule(
            unit=layout.prefix_match_unit, num_cacheable=kv_cache.num_cacheable
        )
        self._pages_of_next_blocks = sum(group.pages_per_block for group in layout.groups)
        self._kv_cache = kv_cache
        self._counters = counters
        self._forgotten: list[RequestId] = []
        self._next_step = 0
        self.waiting = OrderedStates()
        self.running = OrderedStates()
        self.leaving = OrderedStates()

    # -- one step --------------------------------------------------------------------------

    def schedule(self, now: float) -> StepRecord | None:
        """The next plan; None if no request can go on before something else happens."""
        builder = PlanBuilder(StepId(self._next_step))
        budget = self._config.max_num_batched_tokens
        budget -= self._schedule_decodes(builder, now)
        self._schedule_prompts(builder, budget, now)
        if builder.is_empty:
            return None
        self._next_step += 1
        record = builder.build(self._forgotten)
        self._forgotten = []
        return record

    def _schedule_decodes(self, builder: PlanBuilder, now: float) -> int:
        num_tokens = 0
        for state in tuple(self.running):
            if state.status is Status.RUNNING and state.num_remaining == 1 and state.wants_tokens:
                num_tokens += self._schedule_chunk(builder, state, 1, now)
        return num_tokens

    def _schedule_prompts(self, builder: PlanBuilder, budget: int, now: float) -> None:
        if budget <= 0:
            return
        prefilling = [_Running(state) for state in self.running if state.is_prefilling]
        candidates = sorted((*prefilling, *self._prospects()), key=lambda each: each.state.order)
        demands = [Demand(each.state.order[0], each.num_remaining) for each in candidates]
        shares = divide(budget, demands, self._config.long_prefill_token_threshold)
        has_room = True
        for candidate, share in zip(candidates, shares, strict=True):
            if not share:
                continue
            if isinstance(candidate, _Prospect):
                has_room = has_room and self._start(builder, candidate, share, now)
            elif candidate.state.status is Status.RUNNING:
                self._schedule_chunk(builder, candidate.state, share, now)

    def _schedule_chunk(
        self, builder: PlanBuilder, state: RequestState, num_tokens: int, now: float
    ) -> int:
        added = self._make_room(builder, state, state.num_scheduled + num_tokens, now)
        if added is None:
            return 0
        builder.extend_tables(state.request.request_id, added)
        builder.add_chunk(state, num_tokens)
        return num_tokens

    def _make_room(
        self, builder: PlanBuilder, state: RequestState, num_tokens: int, now: float
    ) -> tuple[NewPages, ...] | None:
        """Pages for `num_tokens` tokens, preempting others for them if need be."""
        assert state.allocation is not None
        while True:
            added = self._kv_cache.grow(state.allocation, num_tokens)
            if added is not None or len(self.leaving):
                return added
            victim = choose_victim(state, self.running, builder)
            if victim is None:
                return None
            self._preempt(victim, now)
            if victim is state:
                return None

    # -- starting --------------------------------------------------------------------------

    def _prospects(self) -> list[_Prospect]:
        """Waiting requests that seats allow and that need not wait for another's prefix.

        None at all while the first of them has no room: nobody passes it.
        """
        seats = min(MAX_PROSPECTS, self._config.max_num_seqs - len(self.running))
        prospects: list[_Prospect] = []
        producers = [s for s in self.running if s.num_confirmed < s.num_prompt_tokens]
        for state in self.waiting:
            if len(prospects) >= seats:
                break
            if state.prefix_wait is not None and not state.prefix_wait.is_over:
                continue
            match = self._kv_cache.match(state.sequence)
            state.prefix_wait = self._wait_rule.find(state, match.num_tokens, producers)
            if state.prefix_wait is not None:
                continue
            if not prospects and not self._has_room(state, match):
                break
            prospects.append(_Prospect(state, match))
            producers.append(state)
        return prospects

    def _has_room(self, state: RequestState, match: Match) -> bool:
        """Whether the pool can take the whole prompt beside what is promised to others."""
        taken = self._kv_cache.num_pages_taken(match, state.num_tokens)
        return taken + self._num_promised_pages() <= self._kv_cache.num_available_pages

    def _start(self, builder: PlanBuilder, prospect: _Prospect, share: int, now: float) -> bool:
        """Let a waiting request run; False if the pool has no room for its whole prompt."""
        state = prospect.state
        match = self._kv_cache.match(state.sequence)
        if not self._has_room(state, match):
            return False
        state.allocation = self._kv_cache.begin(match, now)
        state.num_scheduled = state.num_confirmed = match.num_tokens
        if state.num_cached_tokens is None:
            state.num_cached_tokens = match.num_tokens
            self._counters.prefix_query_tokens += state.num_prompt_tokens
            self._counters.prefix_hit_tokens += match.num_tokens
        share = min(share, state.num_remaining)
        added = self._kv_cache.grow(state.allocation, state.num_scheduled + share)
        assert added is not None, "num_pages_taken promised room"
        self.waiting.remove(state)
        self.running.add(state)
        state.status = Status.RUNNING
        builder.admit(self._introduce(state), state)
        builder.extend_tables(
            state.request.request_id, self._kv_cache.block_tables(state.allocation)
        )
        builder.add_chunk(state, share)
        return True

    def _num_promised_pages(self) -> int:
        """Pages that running requests will need for their prompts and their next blocks."""
        promised = len(self.running) * self._pages_of_next_blocks
        for state in self.running:
            if state.is_prefilling and state.allocation is not None:
                promised += self._kv_cache.num_missing_pages(state.allocation, state.num_tokens)
        return promised

    def _introduce(self, state: RequestState) -> AdmittedRequest:
        sampling = state.request.sampling
        history = state.sequence.ids(0, len(state.sequence)) if sampling.needs_history else None
        stop_ids = () if sampling.ignore_eos else self._config.eos_token_ids
        return AdmittedRequest(
            request_id=state.request.request_id,
            num_prompt_tokens=state.num_prompt_tokens,
            sampling=sampling,
            stop_ids=(*stop_ids, *sampling.stop_token_ids),
            history=history,
        )

    # -- leaving ---------------------------------------------------------------------------

    def _preempt(self, state: RequestState, now: float) -> None:
        self._counters.num_preemptions += 1
        self.retire(state, now)

    def retire(self, state: RequestState, now: float) -> None:
        """Take a running request out; its pages go once no step in flight uses them."""
        self.running.remove(state)
        self.leaving.add(state)
        state.status = Status.LEAVING
        self.settle(state, now)

    def settle(self, state: RequestState, now: float) -> None:
        """Release a leaving request if no step in flight uses it; unfinished ones wait again."""
        if state.status is not Status.LEAVING or state.num_inflight:
            return
        assert state.allocation is not None
        self._kv_cache.end(state.allocation, state.sequence, state.num_confirmed, now)
        self._forgotten.append(state.request.request_id)
        self.leaving.remove(state)
        state.restart()
        if state.finish_reason is None:
            self.waiting.add(state)
        else:
            state.status = Status.GONE

    def states(self) -> Iterator[RequestState]:
        """Every state that is waiting, running or leaving."""
        return chain(self.waiting, self.running, self.leaving)
