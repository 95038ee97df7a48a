"""GGUF files: metadata as a config, tensors dequantised on reading.

The `gguf` package parses and dequantises; this module decides what is accepted.
"""

from math import gcd
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.gguf_reader import ReaderTensor

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.checkpoint import (
    StoredMatrix,
    TensorFormat,
    TensorInfo,
)
from okibi.execution.models.checkpoint.gguf_config import config_from_gguf
from okibi.execution.models.checkpoint.gguf_header import GGUFHeaderReader, read_gguf_header

READABLE_TYPES = frozenset(
    {
        GGMLQuantizationType.F32,
        GGMLQuantizationType.F16,
        GGMLQuantizationType.BF16,
        GGMLQuantizationType.Q8_0,
        GGMLQuantizationType.Q4_0,
        GGMLQuantizationType.Q4_1,
        GGMLQuantizationType.Q5_0,
        GGMLQuantizationType.Q5_1,
        GGMLQuantizationType.Q4_K,
        GGMLQuantizationType.Q5_K,
        GGMLQuantizationType.Q6_K,
    }
)
_GROUP_VALUES = 1 << 18
ROPE_DIVISORS = "rope_freqs.weight"
_EOS_KEYS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")


class GGUFFile:
    """A `Checkpoint` over one GGUF file."""

    format = TensorFormat.GGUF

    def __init__(self, path: Path, header: GGUFHeaderReader) -> None:
        metadata = {name: field.contents() for name, field in header.fields.items()}
        self.files = (path,)
        self._tensors = {tensor.name: tensor for tensor in header.tensors}
        self.tensors = {
            # GGUF lists the fastest dimension first.
            name: TensorInfo(
                shape=tuple(int(size) for size in reversed(tensor.shape)),
                dtype=tensor.tensor_type.name,
            )
            for name, tensor in self._tensors.items()
        }
        divisors = self.read(ROPE_DIVISORS).tolist() if ROPE_DIVISORS in self._tensors else None
        self.config = config_from_gguf(metadata, self.tensors, divisors)
        eos = [metadata[key] for key in _EOS_KEYS if isinstance(metadata.get(key), int)]
        self.eos_token_ids = tuple(dict.fromkeys(eos))

    def read(self, name: str) -> torch.Tensor:
        tensor = self._tensors[name]
        if tensor.tensor_type not in READABLE_TYPES:
            raise ModelError(f"okibi does not read GGUF type {tensor.tensor_type.name} ({name})")
        values = _dequantise(tensor).reshape(self.tensors[name].shape)
        # Unquantised tensors are views of the read-only file; torch wants memory of its own.
        return torch.from_numpy(np.require(values, np.float32, ["C", "W"]))

    def read_stored(self, name: str) -> StoredMatrix:
        num_rows = self.tensors[name].shape[0]
        rows = np.asarray(self._tensors[name].data).reshape(num_rows, -1)
        return StoredMatrix(dtype=self.tensors[name].dtype, rows=rows.view(np.uint8))


def _dequantise(tensor: ReaderTensor) -> np.ndarray:
    """All values of a tensor, flat or not.

    `gguf` works on 16 rows at a time. Blocks follow one another across rows, so rows are joined
    until 16 of them are worth a call.
    """
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
    if tensor.data.dtype != np.uint8 or not tensor.data.size:
        return gguf.dequantize(tensor.data, tensor.tensor_type)
    num_blocks = tensor.data.size // block_bytes
    blocks_per_row = gcd(num_blocks, _GROUP_VALUES // 16 // block_size)
    rows = tensor.data.reshape(-1, blocks_per_row * block_bytes)
    return gguf.dequantize(rows, tensor.tensor_type)


def open_gguf(path: Path) -> GGUFFile:
    """Open a GGUF file.

    Raises:
        ModelError: it is broken, or asks for something unsupported.
    """
    header = read_gguf_header(path)
    try:
        return GGUFFile(path, header)
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not a readable GGUF file: {error}") from error
