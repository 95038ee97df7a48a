"""Root-mean-square normalisation."""

from okibi.execution.kernels.rms_norm.reference import rms_norm

__all__ = ["rms_norm"]
