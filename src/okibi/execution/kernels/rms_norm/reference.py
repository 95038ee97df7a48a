"""RMSNorm (Zhang and Sennrich 2019) in plain torch."""

import torch


def rms_norm(x_TH: torch.Tensor, weight_H: torch.Tensor, eps: float) -> torch.Tensor:
    """`weight * x / sqrt(mean(x^2) + eps)` over the last dimension, the statistics in float32.

    The scaled input is rounded to the input's type before the weight is applied, as the models
    were trained.
    """
    x32_TH = x_TH.float()
    scale_T1 = torch.rsqrt(x32_TH.square().mean(-1, keepdim=True) + eps)
    return weight_H * (x32_TH * scale_T1).to(x_TH.dtype)
