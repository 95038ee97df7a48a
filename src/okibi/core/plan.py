"""The one object that crosses from deciding to doing.

A `BatchPlan` says everything a step does. It is a value: it can be compared, serialised and sent
to another process, and the executor behind it may compute, simulate or merely check. It carries
no clock, no tensor and no reference to the scheduler.

Ordering inside one step: `finished` is forgotten, `admitted` and `table_updates` are applied,
`copies` run, then `chunks` are computed. Steps run in the order of their ids.
"""

from dataclasses import dataclass

from okibi.core.ids import GroupId, PageId, RequestId, StepId
from okibi.core.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRef:
    """A token whose value is still in flight: draft `draft` of row `row` of step `step_id`.

    `row` indexes the sampled rows of that step, in plan order.
    """

    step_id: StepId
    row: int
    draft: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCopy:
    """Copy-on-write: the whole page `source` into `target`, before the step computes."""

    source: PageId
    target: PageId


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRequest:
    """What an executor must remember about a request from now on.

    Attributes:
        num_prompt_tokens: Length of the prompt; positions from there on are output.
        sampling: With `seed` resolved.
        stop_ids: End-of-sequence and stop tokens, masked before `min_tokens`.
        history: Packed int32 ids of all tokens known so far, if `sampling.needs_history`.
    """

    request_id: RequestId
    num_prompt_tokens: int
    sampling: SamplingParams
    stop_ids: tuple[int, ...]
    history: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTableUpdate:
    """Blocks of one group appended to a request's block table, from block `start_block` on.

    Attributes:
        pages: Packed int32 page ids: all pages of the first block, then of the next one.
    """

    request_id: RequestId
    group_id: GroupId
    start_block: int
    pages: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChunk:
    """Consecutive tokens of one request to compute in this step.

    Attributes:
        start: Position of the first token; positions before it are in the cache.
        num_tokens: Length, drafts excluded.
        tokens: Packed int32 ids; None when the token source has none (simulation). Tokens still
            in flight are missing at the end and named by `ref` instead.
        ref: Where the last token comes from if its value is not known yet.
        samples: Whether the logits after the last token yield a new token.
        drafts: Draft token ids to verify after the last token.
    """

    request_id: RequestId
    start: int
    num_tokens: int
    tokens: bytes | None
    ref: TokenRef | None = None
    samples: bool
    drafts: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Everything one step does. An empty plan is valid (an idle rank of a lockstep group)."""

    step_id: StepId
    admitted: tuple[AdmittedRequest, ...] = ()
    table_updates: tuple[BlockTableUpdate, ...] = ()
    copies: tuple[PageCopy, ...] = ()
    chunks: tuple[ScheduledChunk, ...] = ()
    finished: tuple[RequestId, ...] = ()

    @property
    def num_tokens(self) -> int:
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def num_sampled_rows(self) -> int:
        return sum(chunk.samples for chunk in self.chunks)
