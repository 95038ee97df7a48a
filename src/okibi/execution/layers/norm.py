"""Normalisation layers."""

import torch
from torch import nn

from okibi.execution.kernels.rms_norm import rms_norm


class RMSNorm(nn.Module):
    """RMSNorm over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps

    def forward(self, x_TH: torch.Tensor) -> torch.Tensor:
        return rms_norm(x_TH, self.weight, self.eps)
