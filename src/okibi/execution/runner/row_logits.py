"""The logits of a step's sampled rows, with what every step asks of them.

Native kernels answer these questions while the logits are in their caches; for the others torch
does. Greedy steps need nothing else.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLogits:
    """One row a sampled token.

    Attributes:
        values_RV: float32; may be a buffer that the next step overwrites.
        best_R: The token of the largest logit, the first among equals (int64); any token where the
            logits are not finite.
        finite_R: Whether all logits of a row are numbers (bool).
    """

    values_RV: torch.Tensor
    best_R: torch.Tensor
    finite_R: torch.Tensor


def row_logits(values_RV: torch.Tensor) -> RowLogits:
    """What torch says of some rows of logits."""
    return RowLogits(
        values_RV=values_RV,
        best_R=values_RV.argmax(dim=-1),
        finite_R=values_RV.sum(dim=-1).isfinite(),
    )
