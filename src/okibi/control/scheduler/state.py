"""The moving part of a request.

There is no prefill or decode phase: a request has `num_tokens` tokens, of which `num_scheduled`
have been handed to a step and `num_confirmed` were computed by a step that has ended. Counts of
scheduled work are optimistic; what a step in flight will sample is `num_pending`.

    | cached | computed, confirmed | in flight | to compute |
    0        num_cached            num_confirmed  num_scheduled   num_tokens
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from okibi.core.output import FinishReason
from okibi.core.plan import TokenRef
from okibi.core.request import Request
from okibi.core.token_source import TokenSequence
from okibi.kvcache.manager import Allocation


class Status(Enum):
    """Where a request is. `LEAVING`: preempted or finished while steps in flight still use it."""

    WAITING = auto()
    RUNNING = auto()
    LEAVING = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class RequestState:
    """Progress of one request.

    Attributes:
        order: Sort key of the queue policy; smaller is served first, preempted last.
        pending_ref: Where the last token comes from while its value is not known.
        num_inflight: Steps in flight that compute tokens of this request.
        num_cached_tokens: Prefix hit when it first ran; None before.
        prefix_wait: The latest wait for a prefix that another request computes.
    """

    request: Request
    sequence: TokenSequence
    order: tuple[int, int]
    status: Status = Status.WAITING
    num_scheduled: int = 0
    num_confirmed: int = 0
    num_pending: int = 0
    pending_ref: TokenRef | None = None
    num_inflight: int = 0
    allocation: Allocation | None = None
    num_cached_tokens: int | None = None
    finish_reason: FinishReason | None = None
    prefix_wait: "PrefixWait | None" = None

    @property
    def num_tokens(self) -> int:
        return len(self.sequence) + self.num_pending

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.prompt)

    @property
    def num_remaining(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.num_tokens - self.num_scheduled

    @property
    def wants_tokens(self) -> bool:
        """Whether the tokens in flight leave any to be generated."""
        num_output = self.sequence.num_output_tokens + self.num_pending
        return num_output < self.request.sampling.max_tokens

    @property
    def is_prefilling(self) -> bool:
        """Whether more than the next token is still to be computed."""
        return self.num_remaining > 1

    def restart(self) -> None:
        """Forget computed tokens; what was generated stays."""
        self.status = Status.WAITING
        self.num_scheduled = 0
        self.num_confirmed = 0
        self.allocation = None


@dataclass(frozen=True, slots=True)
class PrefixWait:
    """A wait for `producer` to have cached its first `num_tokens` tokens."""

    producer: RequestState
    num_tokens: int
    num_cacheable: Callable[[int], int]

    @property
    def is_cached(self) -> bool:
        return self.num_cacheable(self.producer.num_confirmed) >= self.num_tokens

    @property
    def is_over(self) -> bool:
        """Whether the tokens are cached, or never will be by this producer."""
        return self.producer.status is not Status.RUNNING or self.is_cached
