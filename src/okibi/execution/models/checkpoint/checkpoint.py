"""One view of every checkpoint format: a config, named tensors, files.

Opening reads headers only. Tensors keep the names and the layout of their format; what they mean
to a model is that model's `weights.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from okibi.core.arch import Config
from okibi.core.errors import ModelError


class TensorFormat(StrEnum):
    """Whose names and layouts the tensors have."""

    HUGGING_FACE = "hugging_face"
    GGUF = "gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """A tensor's header. `dtype` is the format's own name, quantised types included."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMatrix:
    """A matrix as its file has it.

    Attributes:
        dtype: As in `TensorInfo`.
        rows: uint8 [outputs, bytes of a row], memory-mapped where the file is. Read-only.
    """

    dtype: str
    rows: NDArray[np.uint8]


class Checkpoint(Protocol):
    """An open checkpoint."""

    @property
    def format(self) -> TensorFormat: ...

    @property
    def config(self) -> Config:
        """As in a Hugging Face config.json."""
        ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a generation, without duplicates."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """All files with weights, in a fixed order."""
        ...

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Header of every tensor, by name."""
        ...

    def read(self, name: str) -> torch.Tensor:
        """The tensor, on the CPU; dequantised to float32 if it was quantised.

        Raises:
            ModelError: its bytes cannot be read.
        """
        ...

    def read_stored(self, name: str) -> StoredMatrix:
        """A tensor of two dimensions, its rows as they are stored.

        Raises:
            ModelError: its bytes cannot be read.
        """
        ...


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a Hugging Face folder or a `.gguf` file.

    Raises:
        ModelError: nothing is there, or it cannot be read.
    """
    # Each format brings its own library; only the one at hand is loaded.
    if path.is_dir():
        from okibi.execution.models.checkpoint.hf_folder import open_hf_folder

        return open_hf_folder(path)
    if not path.exists():
        raise ModelError(f"{path} does not exist")
    if path.suffix.lower() != ".gguf":
        raise ModelError(f"{path} is neither a model folder nor a .gguf file")
    from okibi.execution.models.checkpoint.gguf_file import open_gguf

    return open_gguf(path)
