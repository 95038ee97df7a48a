"""What comes back: from an executor (`StepOutput`) and from a replica (`RequestOutput`).

Values only. Times are seconds of the injected clock.
"""

from dataclasses import dataclass
from enum import StrEnum

from okibi.core.ids import RequestId, StepId


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REJECTED = "rejected"


class RejectReason(StrEnum):
    """Why a request was refused before any work was done."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    QUEUE_FULL = "queue_full"
    DRAINING = "draining"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Natural-log probabilities at one position.

    `top` holds (token id, logprob) of the most likely tokens, best first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRow:
    """The tokens one sampled row yielded: accepted drafts, then one new token.

    With an `error` there are none, and the request cannot go on.
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """The result of one plan. `rows` are its sampling chunks, in plan order."""

    step_id: StepId
    rows: tuple[SampledRow, ...] = ()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why, and in words a client can act on. `retry_after_s` is 0 where retrying is pointless."""

    reason: RejectReason
    message: str
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """News about one request.

    The first output of a request either rejects it or acknowledges it (no tokens, no finish
    reason). `num_cached_tokens` is None until the request first ran.
    """

    request_id: RequestId
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    num_cached_tokens: int | None = None
    rejection: Rejection | None = None
    error: str | None = None
