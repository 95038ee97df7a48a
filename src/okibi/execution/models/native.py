"""Models that run on the native kernels: what the runner asks of them, and when they can be had.

A native model is filled from a checkpoint in one go and has no torch in it. Which instruction set
it runs on follows from the element type: kernels that multiply bfloat16 round what they multiply,
so a float32 model stays off them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from okibi.core.errors import ConfigError
from okibi.core.kv_spec import KVDType

_FLOAT32_LEVELS = frozenset({"portable", "avx2", "avx512"})
_DTYPES = (KVDType.FLOAT32, KVDType.BFLOAT16)


class NativeUnavailable(ConfigError):
    """The native kernels cannot run this model here; the message says why."""


class NativeModel(Protocol):
    """A decoder with a language-model head, for the CPU."""

    def bind_pages(
        self,
        arena: NDArray[np.uint8],
        block_tokens: int,
        dtype: str,
        layer_offsets: Sequence[int],
    ) -> None:
        """Keep keys and values in `arena` [pages, page bytes], each layer at its offset.

        Raises:
            ValueError: the layers do not fit in a page.
        """
        ...

    def forward(
        self,
        token_ids: NDArray[np.int32],
        spans: NDArray[np.int64],
        block_table: NDArray[np.int32],
        sampled: NDArray[np.int32],
        logits: NDArray[np.float32],
        choices: NDArray[np.int32],
    ) -> None:
        """Run tokens [T] that spans [S, (table row, first, length, start)] give to sequences.

        Args:
            sampled: Indices of the tokens whose `logits` [R, vocabulary] are wanted.
            choices: Gets the token of the largest logit of each of them, or -1 if not all are
                finite: int32 [R].

        Raises:
            ValueError: an index lies outside of what it points into.
        """
        ...

    def take_seconds(self) -> dict[str, float]:
        """Seconds spent in each phase since the last call, by its name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOptions:
    """How a native model is to run.

    Attributes:
        level: Instruction set, one of `installed_levels()`.
        dtype: Of keys and values, and of weights that the checkpoint stores as float32.
    """

    level: str
    num_threads: int
    dtype: KVDType


def installed_levels() -> tuple[str, ...]:
    """Instruction sets that the kernels can run on here, slowest first; none if not built."""
    try:
        from okibi._native import kernel_levels
    except ImportError:
        return ()
    return tuple(kernel_levels())


def choose_options(
    levels: Sequence[str], device: torch.device, dtype: KVDType, wanted: str | None = None
) -> NativeOptions:
    """The fastest of `levels`, or the one that is wanted, with as many threads as torch has.

    Raises:
        NativeUnavailable: none can run on the device in that type.
    """
    if not levels:
        raise NativeUnavailable("the C++ part of okibi is not built")
    if device.type != "cpu":
        raise NativeUnavailable(f"native kernels run on cpu, not on {device.type}")
    if dtype not in _DTYPES:
        raise NativeUnavailable(f"native kernels compute in {' or '.join(_DTYPES)}, not {dtype}")
    exact = [level for level in levels if level in _FLOAT32_LEVELS]
    fitting = exact if dtype is KVDType.FLOAT32 else list(levels)
    if wanted is not None and wanted not in fitting:
        raise NativeUnavailable(f"no kernels for {wanted} in {dtype}")
    return NativeOptions(
        level=wanted or fitting[-1], num_threads=torch.get_num_threads(), dtype=dtype
    )
