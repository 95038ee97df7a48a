"""How one step's tokens are divided among prompts.

The oldest prompt goes first, yet shorter ones overtake it: they may take up to half of the step
between them, so that a long prompt neither freezes the rest nor is starved by a stream of short
ones. A prompt never overtakes one of a more urgent rank.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple


class Demand(NamedTuple):
    """Tokens that a prompt still has to compute, and the class it competes in.

    A smaller `rank` is served before a larger one; overtaking happens within a rank.
    """

    rank: int
    num_tokens: int


def divide(budget: int, demands: Sequence[Demand], cap: int) -> list[int]:
    """Tokens for each prompt, summing to at most `budget`.

    Args:
        budget: Tokens left in the step.
        demands: In the order of service: by rank, then oldest first.
        cap: Most tokens for one prompt (`long_prefill_token_threshold`); 0 for none.
    """
    shares: list[int] = []
    for _, group in groupby(demands, key=lambda demand: demand.rank):
        wanted = [min(d.num_tokens, cap) if cap else d.num_tokens for d in group]
        shares += _divide_equals(budget - sum(shares), wanted)
    return shares


def _divide_equals(budget: int, wanted: list[int]) -> list[int]:
    shorter = [i for i in range(1, len(wanted)) if wanted[i] < wanted[0]]
    reserve = min(budget // 2, sum(wanted[i] for i in shorter))
    shares = [0] * len(wanted)
    shares[0] = min(wanted[0], budget - reserve)
    left = budget - shares[0]
    shorter.sort(key=lambda i: (wanted[i], i))
    others = [i for i in range(1, len(wanted)) if wanted[i] >= wanted[0]]
    for i in (*shorter, *others):
        shares[i] = min(wanted[i], left)
        left -= shares[i]
    return shares
