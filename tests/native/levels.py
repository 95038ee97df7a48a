"""What tests of the native kernels share: the levels of this machine, and bfloat16 in numpy.

Skips a module where the C++ part was not built.
"""

import numpy as np
import numpy.typing as npt
import pytest

native = pytest.importorskip("okibi._native", reason="the C++ part was not built")

LEVELS: list[str] = native.kernel_levels()
# Levels whose activations are bfloat16.
NARROW = ("avx512_bf16", "amx")

Array = npt.NDArray[np.float64]


def to_bf16(x: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """The bits of `x` rounded to nearest even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(x: npt.ArrayLike) -> Array:
    return from_bf16(to_bf16(x)).astype(np.float64)


def seen_by(level: str, x: npt.ArrayLike) -> Array:
    """Activations as the kernels of `level` see them."""
    return rounded(x) if level in NARROW else np.asarray(x, np.float32).astype(np.float64)
