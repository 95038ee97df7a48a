"""Hugging Face folders: config.json, safetensors with or without an index, generation_config.json.

Reads headers when opened and single tensors when asked; the files stay memory-mapped. Never
unpickles anything: `.bin` checkpoints are refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open

from okibi.core.arch import Config
from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.checkpoint import (
    StoredMatrix,
    TensorFormat,
    TensorInfo,
)

INDEX_NAME = "model.safetensors.index.json"
READABLE_DTYPES = frozenset({"F32", "F16", "BF16"})


class HFFolder:
    """A `Checkpoint` over safetensors shards."""

    format = TensorFormat.HUGGING_FACE

    def __init__(self, config: Config, eos_token_ids: tuple[int, ...], shards: list[Path]) -> None:
        self.config = config
        self.eos_token_ids = eos_token_ids
        self.files = tuple(shards)
        self.tensors: Mapping[str, TensorInfo] = {}
        self._shard_of: dict[str, Any] = {}
        tensors: dict[str, TensorInfo] = {}
        for shard in shards:
            handle = _open_shard(shard)
            for name in handle.keys():  # noqa: SIM118 - not a mapping
                header = handle.get_slice(name)
                tensors[name] = TensorInfo(
                    shape=tuple(header.get_shape()), dtype=str(header.get_dtype())
                )
                self._shard_of[name] = handle
        self.tensors = tensors

    def read(self, name: str) -> torch.Tensor:
        dtype = self.tensors[name].dtype
        if dtype not in READABLE_DTYPES:
            raise ModelError(f"okibi does not read tensors of type {dtype} ({name})")
        try:
            return self._shard_of[name].get_tensor(name)
        except SafetensorError as error:
            raise ModelError(f"cannot read {name}: {error}") from error

    def read_stored(self, name: str) -> StoredMatrix:
        # safetensors maps the file; the view keeps the mapping.
        rows = self.read(name).contiguous().view(torch.uint8).numpy()
        return StoredMatrix(dtype=self.tensors[name].dtype, rows=rows)


def open_hf_folder(folder: Path) -> HFFolder:
    """Open a folder by its config.json.

    Raises:
        ModelError: the config or a shard is missing or broken.
    """
    config = _read_json(folder / "config.json")
    eos_token_ids = _eos_token_ids(folder, config)
    return HFFolder(config, eos_token_ids, _find_shards(folder))


def _find_shards(folder: Path) -> list[Path]:
    index = folder / INDEX_NAME
    if index.exists():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelError(f"{index} has no weight_map")
        names = sorted({str(name) for name in weight_map.values()})
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise ModelError(f"{folder} lacks {missing[0]}, which {INDEX_NAME} names")
        return [folder / name for name in names]
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        hint = " (okibi reads safetensors, not .bin)" if list(folder.glob("*.bin")) else ""
        raise ModelError(f"{folder} holds no .safetensors file{hint}")
    return shards


def _open_shard(shard: Path) -> Any:
    try:
        return safe_open(shard, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{shard} is broken or cut short: {error}") from error


def _eos_token_ids(folder: Path, config: Config) -> tuple[int, ...]:
    """generation_config.json says best what ends a chat turn; config.json stands in for it."""
    generation = folder / "generation_config.json"
    ids = _read_json(generation).get("eos_token_id") if generation.exists() else None
    if ids is None:
        ids = config.get("eos_token_id")
    listed = ids if isinstance(ids, list) else [] if ids is None else [ids]
    return tuple(dict.fromkeys(int(token) for token in listed if isinstance(token, int)))


def _read_json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} does not hold a JSON object")
    return cast("dict[str, object]", value)
