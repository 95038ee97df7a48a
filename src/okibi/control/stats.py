"""Counters and levels of one replica, as values."""

from dataclasses import dataclass, field, replace

from okibi.core.output import FinishReason
from okibi.kvcache.manager import PoolStats


@dataclass(slots=True, kw_only=True)
class Counters:
    """What a replica counts as it goes; every number only grows.

    Attributes:
        prefix_query_tokens: Prompt tokens of the requests that started.
        prefix_hit_tokens: How many of them were cached when their request first started.
        computed_tokens: Tokens that went through the model, recomputation included.
    """

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    computed_tokens: int = 0
    num_steps: int = 0
    num_preemptions: int = 0
    num_rejected: int = 0
    finished: dict[FinishReason, int] = field(
        default_factory=lambda: dict.fromkeys(FinishReason, 0)
    )

    def copy(self) -> "Counters":
        return replace(self, finished=dict(self.finished))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStats:
    """A snapshot; requests that leave while a step still uses them count as waiting."""

    num_running: int
    num_waiting: int
    num_waiting_tokens: int
    pool: PoolStats
    counters: Counters
