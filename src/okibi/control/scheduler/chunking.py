"""How one step's tokens are divided among prompts.

The oldest prompt goes first, yet shorter ones overtake it: they may take up to half of the step
between them, so that a long prompt neither freezes the rest nor is starved by a stream of short
ones.
"""

from collections.abc import Sequence


def divide(budget: int, demands: Sequence[int], cap: int) -> list[int]:
    """Tokens for each prompt, summing to at most `budget`.

    Args:
        budget: Tokens left in the step.
        demands: Tokens each prompt still has to compute, oldest first.
        cap: Most tokens for one prompt (`long_prefill_token_threshold`); 0 for none.
    """
    wanted = [min(demand, cap) if cap else demand for demand in demands]
    if not wanted:
        return []
    shares = [0] * len(wanted)
    shorter = [i for i in range(1, len(wanted)) if wanted[i] < wanted[0]]
    reserve = min(budget // 2, sum(wanted[i] for i in shorter))
    shares[0] = min(wanted[0], budget - reserve)
    left = budget - shares[0]
    shorter.sort(key=lambda i: (wanted[i], i))
    others = [i for i in range(1, len(wanted)) if wanted[i] >= wanted[0]]
    for i in (*shorter, *others):
        shares[i] = min(wanted[i], left)
        left -= shares[i]
    return shares
