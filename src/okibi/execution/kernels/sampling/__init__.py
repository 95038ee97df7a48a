"""The arithmetic of choosing tokens."""

from okibi.execution.kernels.sampling.counter_random import uniforms
from okibi.execution.kernels.sampling.reference import (
    cut_min_p,
    cut_top_k_top_p,
    draw,
    penalise,
)

__all__ = ["cut_min_p", "cut_top_k_top_p", "draw", "penalise", "uniforms"]
