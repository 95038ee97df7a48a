"""The seam between a model's attention and where its keys and values live.

A model hands over the new queries, keys and values of a layer and gets the attention's output
back. It never learns of pages, sequences or batches.
"""

from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """One layer's attention, apart from its tensors.

    Attributes:
        layer: Index of the layer, which names its cache.
        scale: Factor on the scores, before softmax.
        window: Number of most recent positions seen, the token's own included; None for all.
    """

    layer: int
    scale: float
    window: int | None


class Attend(Protocol):
    """Adds the new keys and values to the cache and attends over all of each sequence."""

    def __call__(
        self,
        spec: AttentionSpec,
        q_TND: torch.Tensor,
        k_TKD: torch.Tensor,
        v_TKD: torch.Tensor,
    ) -> torch.Tensor:
        """Returns o_TND: tokens, heads, head_dim."""
        ...
