"""SwiGLU's activation (Shazeer 2020) in plain torch."""

import torch
import torch.nn.functional as F  # noqa: N812


def silu_and_mul(x_T2I: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`, where a row holds the gate and then the up projection."""
    gate_TI, up_TI = x_T2I.chunk(2, dim=-1)
    return F.silu(gate_TI) * up_TI
