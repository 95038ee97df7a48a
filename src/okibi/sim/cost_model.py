"""How long a step takes, from its plan alone.

Owns the prices of simulated time. A cost that is unknown or makes no sense is an error, never
zero: a simulator that skips what it cannot price is wrong without a sign. Never looks at a clock
and keeps no history.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from okibi.core.errors import ConfigError, ExecutorError
from okibi.core.plan import BatchPlan, ScheduledChunk


class CostModel(Protocol):
    """Prices plans."""

    def step_s(self, plan: BatchPlan) -> float:
        """Seconds from the start of the step to its output."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCostModel:
    """A sum of what a step has much of.

    Attributes:
        base_s: Every step that computes something.
        per_token_s: Each token computed (weights: matrix multiplications).
        per_context_token_s: Each pair of a computed token and a token it attends to.
        per_row_s: Each sampled row.
    """

    base_s: float = 0.0
    per_token_s: float = 0.0
    per_context_token_s: float = 0.0
    per_row_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("base_s", "per_token_s", "per_context_token_s", "per_row_s"):
            value: float = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ConfigError(f"{name} must be a finite number of seconds >= 0, got {value}")

    def step_s(self, plan: BatchPlan) -> float:
        if not plan.chunks:
            return 0.0
        num_attended = sum(num_attended_tokens(chunk) for chunk in plan.chunks)
        return (
            self.base_s
            + self.per_token_s * plan.num_tokens
            + self.per_context_token_s * num_attended
            + self.per_row_s * plan.num_sampled_rows
        )


def num_attended_tokens(chunk: ScheduledChunk) -> int:
    """Pairs (query, key) of causal attention in one chunk; a token attends to itself too."""
    num_new = chunk.num_tokens
    return chunk.start * num_new + num_new * (num_new + 1) // 2


def checked_step_s(cost_model: CostModel, plan: BatchPlan) -> float:
    """The price of `plan`.

    Raises:
        ExecutorError: the model's answer is not a finite number of seconds >= 0.
    """
    seconds = cost_model.step_s(plan)
    if not (math.isfinite(seconds) and seconds >= 0.0):
        raise ExecutorError(f"the cost model prices step {plan.step_id} at {seconds} s")
    return seconds
