"""A `Checkpoint` over tensors in memory, named as Hugging Face names them."""

from collections.abc import Mapping
from pathlib import Path

import torch

from okibi.core.arch import Config
from okibi.execution.models.checkpoint.checkpoint import StoredMatrix, TensorFormat, TensorInfo

_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class MemoryCheckpoint:
    """Serves the tensors it is given; it has no config and no files."""

    format = TensorFormat.HUGGING_FACE
    config: Config = {}  # noqa: RUF012
    eos_token_ids: tuple[int, ...] = ()
    files: tuple[Path, ...] = ()

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors
        self.tensors = {
            name: TensorInfo(shape=tuple(tensor.shape), dtype=_DTYPES[tensor.dtype])
            for name, tensor in tensors.items()
        }

    def read(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def read_stored(self, name: str) -> StoredMatrix:
        rows = self._tensors[name].contiguous().view(torch.uint8).numpy()
        return StoredMatrix(dtype=self.tensors[name].dtype, rows=rows)
