"""Matrices of a checkpoint, packed for the native kernels.

Owns in which format a stored matrix is kept. Quantised blocks and bfloat16 stay as they are, which
loses nothing; what the kernels do not keep is read as float32, and float32 becomes the model's
element type as it does in the reference. One matrix at a time is in memory twice, never more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from okibi._native import PackedMatrix, WeightMemory
from okibi.core.kv_spec import KVDType
from okibi.execution.models.checkpoint import Checkpoint

_EXACT = frozenset({"BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A tensor, and which outputs of the packed matrix its rows are (int32)."""

    tensor: str
    outputs: NDArray[np.int32]


class Packer:
    """Packs the matrices of one checkpoint for a model of one element type."""

    def __init__(self, checkpoint: Checkpoint, dtype: KVDType) -> None:
        self._checkpoint = checkpoint
        self._dtype = dtype
        self._memory = WeightMemory()

    def pack(self, parts: Sequence[Rows], num_outputs: int) -> PackedMatrix:
        """One matrix of all parts; outputs that no part names are zero.

        Raises:
            ModelError: a tensor cannot be read.
        """
        tensors = self._checkpoint.tensors
        formats = {self._kept_as(tensors[part.tensor].dtype) for part in parts}
        chosen = formats.pop() if len(formats) == 1 else self._float_format()
        packed = PackedMatrix(self._memory, chosen, num_outputs, tensors[parts[0].tensor].shape[1])
        for part in parts:
            packed.write(self._rows(part.tensor, chosen), part.outputs)
        return packed

    def _rows(self, tensor: str, wanted: str) -> NDArray[np.uint8]:
        if self._checkpoint.tensors[tensor].dtype == wanted:
            return self._checkpoint.read_stored(tensor).rows
        dtype = torch.bfloat16 if wanted == "BF16" else torch.float32
        return self._checkpoint.read(tensor).to(dtype).contiguous().view(torch.uint8).numpy()

    def _kept_as(self, dtype: str) -> str:
        return dtype if dtype in _EXACT else self._float_format()

    def _float_format(self) -> str:
        return "BF16" if self._dtype is KVDType.BFLOAT16 else "F32"
