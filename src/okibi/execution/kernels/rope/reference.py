"""Rotary position embedding (Su et al. 2021, RoFormer), the half-split form, in plain torch.

Dimension `i` of a head is paired with `i + head_dim / 2`, as in Hugging Face checkpoints.
"""

import torch


def rope(x_TND: torch.Tensor, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    """Rotate every head of every token.

    Args:
        x_TND: Tokens, heads, head_dim.
        cos_TD, sin_TD: Of the angles, each repeated for both halves of the head.
    """
    first, second = x_TND.chunk(2, dim=-1)
    turned_TND = torch.cat((-second, first), dim=-1)
    return x_TND * cos_TD[:, None] + turned_TND * sin_TD[:, None]
