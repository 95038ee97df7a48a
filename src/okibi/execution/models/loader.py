"""From a path to a model ready to run.

Opens the checkpoint, lets `core.arch` say what it is, makes the model on the device and fills it.
How a family does its part stands in the registry; nothing here depends on one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from okibi.core.arch import Arch, parse_config
from okibi.core.errors import ConfigError
from okibi.core.kv_spec import KVDType
from okibi.execution.dtypes import TORCH_DTYPES, resolve_device, resolve_dtype
from okibi.execution.models.checkpoint import open_checkpoint
from okibi.execution.models.family import Model
from okibi.execution.models.fingerprint import fingerprint
from okibi.execution.models.registry import MODEL_FAMILIES


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model with its weights, and what the rest of the system needs to know about it."""

    arch: Arch
    module: Model
    device: torch.device
    dtype: KVDType
    fingerprint: str
    eos_token_ids: tuple[int, ...]


def load_model(path: Path, *, device: str = "cpu", dtype: str = "auto") -> LoadedModel:
    """Load a Hugging Face folder or a GGUF file.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        dtype: `auto`, `float32`, `bfloat16` or `float16`: of weights, arithmetic and KV.

    Raises:
        ModelError: the checkpoint is missing, broken or of an unknown architecture.
        ConfigError: the device or dtype cannot be had, or the weights do not fit.
    """
    target = resolve_device(device)
    kv_dtype = resolve_dtype(dtype, target)
    checkpoint = open_checkpoint(path)
    arch = parse_config(checkpoint.config)
    family = MODEL_FAMILIES[arch.family]
    # A checkpoint that does not fit is found out before memory is taken for it.
    family.check_weights(arch, checkpoint)
    module = _make_module(arch, target, TORCH_DTYPES[kv_dtype])
    family.load_weights(module, arch, checkpoint)
    return LoadedModel(
        arch=arch,
        module=module,
        device=target,
        dtype=kv_dtype,
        fingerprint=fingerprint(checkpoint),
        eos_token_ids=checkpoint.eos_token_ids,
    )


def _make_module(arch: Arch, device: torch.device, dtype: torch.dtype) -> Model:
    """The model with its parameters allocated and not yet filled."""
    try:
        with device, _default_dtype(dtype):
            module: Model = MODEL_FAMILIES[arch.family].build(arch, device)
    except (RuntimeError, MemoryError) as error:
        raise ConfigError(f"the weights do not fit on --device {device}: {error}") from error
    module.requires_grad_(requires_grad=False)
    return module.eval()


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)
