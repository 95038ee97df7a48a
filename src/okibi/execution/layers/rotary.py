"""Angles of rotary position embedding, for every scaling that `core.arch.rope` lists.

Owns the frequencies. All arithmetic is float32 in the order of operations that Hugging Face
transformers uses, so that angles at far positions agree to the last bit.
"""

import math

import torch

from okibi.core.arch.rope import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    RopeSpec,
    YarnScaling,
)
from okibi.execution.kernels.rope import rope


class Rotary:
    """Cosines and sines of one batch of positions, applied to any number of heads."""

    __slots__ = ("_cos_TD", "_sin_TD")

    def __init__(self, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> None:
        self._cos_TD = cos_TD
        self._sin_TD = sin_TD

    def __call__(self, x_TND: torch.Tensor) -> torch.Tensor:
        return rope(x_TND, self._cos_TD, self._sin_TD)


class RotaryEmbedding:
    """Makes a `Rotary` for the positions of a batch.

    Args:
        head_dim: Even.
    """

    def __init__(self, spec: RopeSpec, head_dim: int, device: torch.device) -> None:
        frequencies, self._magnitude = scaled_frequencies(spec, head_dim)
        self._frequencies = frequencies.to(device)

    def __call__(self, positions_T: torch.Tensor, dtype: torch.dtype) -> Rotary:
        angles_TF = positions_T[:, None].float() * self._frequencies
        angles_TD = torch.cat((angles_TF, angles_TF), dim=-1)
        cos_TD = (angles_TD.cos() * self._magnitude).to(dtype)
        sin_TD = (angles_TD.sin() * self._magnitude).to(dtype)
        return Rotary(cos_TD, sin_TD)


def scaled_frequencies(spec: RopeSpec, head_dim: int) -> tuple[torch.Tensor, float]:
    """Frequencies, and the factor on cosines and sines; on the CPU, whatever the default."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    base = 1.0 / (spec.theta**exponents)
    match spec.scaling:
        case None:
            return base, 1.0
        case LinearScaling(factor=factor):
            return base / factor, 1.0
        case Llama3Scaling() as scaling:
            return _llama3(base, scaling), 1.0
        case YarnScaling() as scaling:
            return _yarn(spec.theta, head_dim, scaling), _yarn_magnitude(scaling)
        case FrequencyDivisors(divisors=divisors):
            return base / torch.tensor(divisors, dtype=torch.float32, device="cpu"), 1.0


def _llama3(base: torch.Tensor, scaling: Llama3Scaling) -> torch.Tensor:
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    original = scaling.original_max_position
    wavelength = 2 * math.pi / base
    divided = torch.where(wavelength > original / low, base / scaling.factor, base)
    share = (original / wavelength - low) / (high - low)
    blended = (1 - share) * divided / scaling.factor + share * divided
    between = (wavelength >= original / high) & (wavelength <= original / low)
    return torch.where(between, blended, divided)


def _yarn(theta: float, head_dim: int, scaling: YarnScaling) -> torch.Tensor:
    powers = theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim)
    low = _yarn_dimension(scaling.beta_fast, theta, head_dim, scaling.original_max_position)
    high = _yarn_dimension(scaling.beta_slow, theta, head_dim, scaling.original_max_position)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    steps = torch.arange(head_dim // 2, dtype=torch.float32, device="cpu")
    ramp = ((steps - low) / width).clamp(0, 1)
    kept = 1 - ramp
    return 1.0 / (scaling.factor * powers) * (1 - kept) + 1.0 / powers * kept


def _yarn_dimension(rotations: float, theta: float, head_dim: int, original: int) -> float:
    """The dimension that turns `rotations` times within the original context."""
    return head_dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))


def _yarn_magnitude(scaling: YarnScaling) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1 else 1.0
