"""The gated activations of MLPs."""

from okibi.execution.kernels.gated_activation.reference import silu_and_mul

__all__ = ["silu_and_mul"]
