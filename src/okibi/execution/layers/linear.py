"""Weights that multiply or are looked up.

Like torch's own modules, but never initialised: every weight is filled from a checkpoint, and
drawing random numbers first takes longer than loading them. Made on torch's default device and
type.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Linear(nn.Module):
    """`x @ weight.T + bias`; `weight` is [output, input]."""

    def __init__(self, input_size: int, output_size: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(output_size, input_size))
        self.bias = nn.Parameter(torch.empty(output_size)) if bias else None

    def forward(self, x_TH: torch.Tensor) -> torch.Tensor:
        return F.linear(x_TH, self.weight, self.bias)


class Embedding(nn.Module):
    """One row of `weight` for each token id."""

    def __init__(self, num_rows: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_rows, size))

    def forward(self, token_ids_T: torch.Tensor) -> torch.Tensor:
        return F.embedding(token_ids_T, self.weight)
