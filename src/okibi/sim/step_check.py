"""The rules one plan must keep.

Owns the checks of a step, in the order its parts take effect: requests forgotten and admitted,
block tables extended, pages copied, contexts read, slots written, tokens sampled. Every context
is checked before any slot is written, because a chunk may not rely on what another chunk of the
same step computes. It changes the shadow and nothing else.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from okibi.core.errors import PlanViolation
from okibi.core.ids import RequestId, StepId
from okibi.core.kv_layout import GroupLayout
from okibi.core.output import SampledRow
from okibi.core.plan import (
    AdmittedRequest,
    BatchPlan,
    BlockTableUpdate,
    PageCopy,
    ScheduledChunk,
    TokenRef,
)
from okibi.sim.fake_model import FakeModel
from okibi.sim.shadow import NEVER_WRITTEN, BlockPart, KnownTokens, ShadowArena, ShadowRequest

PagesInUse = dict[int, list[ShadowRequest | None]]
"""Who uses a page in one step; None stands for a copy that reads it."""


@dataclass(frozen=True, slots=True)
class _ComputedChunk:
    """A chunk after its tokens are known: ids and states of `[start, end + drafts)`."""

    chunk: ScheduledChunk
    request: ShadowRequest
    token_ids: "array[int]"
    states: "array[int]"


class StepCheck:
    """One step against one shadow arena.

    Attributes:
        pages_in_use: What the step reads and writes, once it has run.
    """

    def __init__(
        self,
        arena: ShadowArena,
        model: FakeModel,
        *,
        recent: Mapping[StepId, tuple[SampledRow, ...]],
        expected: Mapping[RequestId, KnownTokens],
        in_flight: Sequence[PagesInUse],
    ) -> None:
        """
        Args:
            arena: Changed by `run`.
            model: Yields the tokens.
            recent: Rows of the steps that a token reference may name.
            expected: Requests whose true tokens are known beforehand.
            in_flight: Pages of the steps whose output was not observed yet.
        """
        self._arena = arena
        self._model = model
        self._recent = recent
        self._expected = expected
        self._in_flight = in_flight
        self._step_id = StepId(-1)
        self.pages_in_use: PagesInUse = {}

    def run(self, plan: BatchPlan) -> tuple[SampledRow, ...]:
        self._step_id = plan.step_id
        for request_id in plan.finished:
            self._forget(request_id)
        for admitted in plan.admitted:
            self._admit(admitted)
        for update in plan.table_updates:
            self._update_table(update)
        self._copy_pages(plan.copies)
        computed = [self._compute(chunk) for chunk in self._distinct(plan.chunks)]
        for part in computed:
            self._write(part)
        return tuple(self._sample(part) for part in computed if part.chunk.samples)

    # -- requests and tables ---------------------------------------------------------------

    def _request(self, request_id: RequestId) -> ShadowRequest:
        request = self._arena.requests.get(request_id)
        if request is None:
            self._fail(request_id, "was not admitted")
        return request

    def _forget(self, request_id: RequestId) -> None:
        self._arena.drop_tables(self._request(request_id))
        del self._arena.requests[request_id]

    def _admit(self, admitted: AdmittedRequest) -> None:
        known = self._arena.requests.get(admitted.request_id)
        if known is None:
            known = self._arena.requests[admitted.request_id] = self._meet(admitted)
        self._arena.drop_tables(known)
        known.admitted = admitted
        self._check_history(known)

    def _meet(self, admitted: AdmittedRequest) -> ShadowRequest:
        known = self._expected.get(admitted.request_id)
        if known is None:
            return ShadowRequest(admitted, KnownTokens(self._model.root(""), array("i")))
        if known.num_prompt_tokens != admitted.num_prompt_tokens:
            self._fail(admitted.request_id, f"has {known.num_prompt_tokens} prompt tokens")
        return ShadowRequest(admitted, known)

    def _check_history(self, request: ShadowRequest) -> None:
        admitted = request.admitted
        if not admitted.sampling.needs_history:
            return
        history = array("i", admitted.history or b"")
        known = request.token_ids[: len(history)]
        if len(history) < admitted.num_prompt_tokens or history[: len(known)] != known:
            self._fail(admitted.request_id, "was admitted with another history than its own")

    def _update_table(self, update: BlockTableUpdate) -> None:
        request = self._request(update.request_id)
        group = self._arena.groups.get(update.group_id)
        if group is None:
            self._fail(update.request_id, f"has no group {update.group_id}")
        table = request.tables.get(update.group_id, array("i"))
        num_blocks = len(table) // group.pages_per_block
        if update.start_block != num_blocks:
            self._fail(
                update.request_id,
                f"gets blocks from {update.start_block} on, its table has {num_blocks}",
            )
        pages, seen = array("i", update.pages), set(table)
        if len(pages) % group.pages_per_block:
            self._fail(update.request_id, f"gets {len(pages)} pages, which are no whole blocks")
        for page in pages:
            if page not in self._arena:
                self._fail(update.request_id, f"gets page {page}, which does not exist")
            if page in seen:
                self._fail(update.request_id, f"gets page {page} twice")
            seen.add(page)
        self._arena.append_to_table(request, update.group_id, pages)

    def _copy_pages(self, copies: tuple[PageCopy, ...]) -> None:
        sources = {copy.source for copy in copies}
        targets = [copy.target for copy in copies]
        for copy in copies:
            if copy.source not in self._arena or copy.target not in self._arena:
                self._fail(None, f"{copy} names a page that does not exist")
            if copy.target in sources or targets.count(copy.target) > 1:
                self._fail(None, f"{copy} depends on the order of this step's copies")
            if self._arena.num_tables(copy.target) != 1:
                num_tables = self._arena.num_tables(copy.target)
                self._fail(None, f"{copy} writes a page that stands in {num_tables} tables")
            if self._arena[copy.source].written_at < 0:
                self._fail(None, f"{copy} reads a page that was never written")
            self._check_in_flight(copy.target, None)
            self._use(copy.source, None)
            self._arena[copy.target].copy_from(self._arena[copy.source], self._step_id)

    # -- reading ---------------------------------------------------------------------------

    def _distinct(self, chunks: tuple[ScheduledChunk, ...]) -> tuple[ScheduledChunk, ...]:
        seen: set[RequestId] = set()
        for chunk in chunks:
            if chunk.request_id in seen:
                self._fail(chunk.request_id, "has two chunks in one step")
            seen.add(chunk.request_id)
        return chunks

    def _compute(self, chunk: ScheduledChunk) -> _ComputedChunk:
        request = self._request(chunk.request_id)
        if chunk.num_tokens < 1 or chunk.start < 0:
            self._fail(chunk.request_id, f"computes {chunk.num_tokens} tokens at {chunk.start}")
        self._check_tables(chunk, request)
        for group in self._arena.groups.values():
            self._check_context(chunk, request, group)
        token_ids = self._token_ids(chunk)
        self._check_tokens(chunk, request, token_ids)
        token_ids.extend(chunk.drafts)
        states = array("Q")
        state = request.state_before(chunk.start)
        for token_id in token_ids:
            state = self._model.next_state(state, token_id)
            states.append(state)
        self._learn(chunk, request, token_ids, states)
        return _ComputedChunk(chunk, request, token_ids, states)

    def _check_tables(self, chunk: ScheduledChunk, request: ShadowRequest) -> None:
        end = chunk.end + len(chunk.drafts)
        for group_id, group in self._arena.groups.items():
            num_blocks = len(request.tables.get(group_id, ())) // group.pages_per_block
            room = num_blocks * group.block_tokens
            if room < end:
                self._fail(
                    chunk.request_id,
                    f"computes up to position {end}, its table of group {group_id} ends at {room}",
                )

    def _check_context(
        self, chunk: ScheduledChunk, request: ShadowRequest, group: GroupLayout
    ) -> None:
        """Every position before the chunk must hold the state of exactly that prefix."""
        for first in range(0, chunk.start, group.block_tokens):
            stop = min(first + group.block_tokens, chunk.start)
            for part, page_id in request.block(group, first // group.block_tokens):
                known = request.states[first:stop]
                page = self._arena[page_id]
                is_same = page.part == part and page.states[: stop - first] == known
                if len(known) == stop - first and is_same:
                    continue
                for position in range(first, stop):
                    self._check_slot(request, part, page_id, position, position - first)

    def _check_slot(
        self, request: ShadowRequest, part: BlockPart, page_id: int, position: int, slot: int
    ) -> None:
        page = self._arena[page_id]
        where = f"reads position {position} in page {page_id}, slot {slot}, which"
        request_id = request.admitted.request_id
        if page.part != part or page.token_ids[slot] == NEVER_WRITTEN:
            self._fail(request_id, f"{where} was never written")
        token_id = page.token_ids[slot]
        if position < len(request.token_ids) and request.token_ids[position] != token_id:
            mine = request.token_ids[position]
            self._fail(
                request_id,
                f"{where} holds token {token_id} instead of {mine} since step {page.written_at}",
            )
        state = self._model.next_state(request.state_before(position), token_id)
        if page.states[slot] != state:
            self._fail(request_id, f"{where} was written after another prefix")
        if position == len(request.states):
            request.states.append(state)
        if position == len(request.token_ids):
            request.token_ids.append(token_id)

    # -- tokens ----------------------------------------------------------------------------

    def _token_ids(self, chunk: ScheduledChunk) -> "array[int]":
        if chunk.tokens is None:
            self._fail(chunk.request_id, "has no token ids, which a checked run needs")
        token_ids = array("i", chunk.tokens)
        if chunk.ref is not None:
            token_ids.append(self._resolve(chunk.request_id, chunk.ref))
        if len(token_ids) != chunk.num_tokens:
            self._fail(chunk.request_id, f"has {len(token_ids)} tokens for {chunk.num_tokens}")
        return token_ids

    def _resolve(self, request_id: RequestId, ref: TokenRef) -> int:
        rows = self._recent.get(ref.step_id)
        if rows is None:
            self._fail(request_id, f"refers to step {ref.step_id}, neither in flight nor just done")
        if ref.row >= len(rows) or rows[ref.row].request_id != request_id:
            self._fail(request_id, f"refers to {ref}, which is no row of its own")
        if ref.draft >= len(rows[ref.row].token_ids):
            self._fail(request_id, f"refers to {ref}, a draft that was not accepted")
        return rows[ref.row].token_ids[ref.draft]

    def _check_tokens(
        self, chunk: ScheduledChunk, request: ShadowRequest, token_ids: "array[int]"
    ) -> None:
        known = request.token_ids[chunk.start : chunk.end]
        for offset, mine in enumerate(known):
            if mine != token_ids[offset]:
                self._fail(
                    chunk.request_id,
                    f"has token {mine}, not {token_ids[offset]}, at {chunk.start + offset}",
                )

    def _learn(
        self,
        chunk: ScheduledChunk,
        request: ShadowRequest,
        token_ids: "array[int]",
        states: "array[int]",
    ) -> None:
        request.token_ids.extend(token_ids[len(request.token_ids) - chunk.start : chunk.num_tokens])
        request.states.extend(states[len(request.states) - chunk.start : chunk.num_tokens])

    # -- writing and sampling --------------------------------------------------------------

    def _write(self, computed: _ComputedChunk) -> None:
        start = computed.chunk.start
        end = start + len(computed.token_ids)
        for group in self._arena.groups.values():
            for first in range(0, end, group.block_tokens):
                stop = first + group.block_tokens
                for part, page_id in computed.request.block(group, first // group.block_tokens):
                    self._use(page_id, computed.request)
                    if stop > start:
                        self._arena[page_id].begin(part, group.block_tokens)
                        self._write_page(computed, page_id, first, min(stop, end))

    def _write_page(self, computed: _ComputedChunk, page_id: int, first: int, stop: int) -> None:
        """Write what the chunk computes of `[first, stop)`, whose slots are in this page."""
        start, page = computed.chunk.start, self._arena[page_id]
        for position in range(max(first, start), stop):
            slot, offset = position - first, position - start
            if page.holds(slot, computed.token_ids[offset], computed.states[offset]):
                continue
            if self._arena.num_tables(page_id) > 1:
                self._fail(
                    computed.chunk.request_id,
                    f"overwrites slot {slot} of page {page_id}, which another request uses",
                )
            self._check_in_flight(page_id, computed.request)
            page.token_ids[slot] = computed.token_ids[offset]
            page.states[slot] = computed.states[offset]
            page.written_at = self._step_id

    def _use(self, page_id: int, user: ShadowRequest | None) -> None:
        self.pages_in_use.setdefault(page_id, []).append(user)

    def _check_in_flight(self, page_id: int, writer: ShadowRequest | None) -> None:
        """A page is its users' until the end of their step has been observed."""
        for used in self._in_flight:
            if any(user is None or user is not writer for user in used.get(page_id, ())):
                request_id = writer.admitted.request_id if writer else None
                self._fail(
                    request_id, f"overwrites page {page_id}, which a step in flight still uses"
                )

    def _sample(self, part: _ComputedChunk) -> SampledRow:
        chunk, request = part.chunk, part.request
        admitted = request.admitted
        num_output = chunk.end - admitted.num_prompt_tokens
        if num_output < 0:
            self._fail(chunk.request_id, f"samples at {chunk.end - 1}, inside its prompt")
        sampled: list[int] = []
        for accepted, state in enumerate(part.states[chunk.num_tokens - 1 :]):
            token_id = self._model.sample(
                state, admitted.sampling, num_output + accepted, admitted.stop_ids
            )
            sampled.append(token_id)
            if chunk.drafts[accepted : accepted + 1] != (token_id,):
                break
        request.token_ids.extend(sampled[len(request.token_ids) - chunk.end :])
        num_top = admitted.sampling.logprobs
        logprobs = [] if num_top is None else [self._model.logprobs(i, num_top) for i in sampled]
        return SampledRow(
            request_id=chunk.request_id, token_ids=tuple(sampled), logprobs=tuple(logprobs)
        )

    def _fail(self, request_id: RequestId | None, what: str) -> NoReturn:
        subject = "the plan:" if request_id is None else f"request {request_id!r}"
        raise PlanViolation(f"step {self._step_id}: {subject} {what}")
