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
from okibi.core.kernels import KernelChoice
from okibi.core.kv_spec import KVDType
from okibi.execution.dtypes import TORCH_DTYPES, resolve_device, resolve_dtype
from okibi.execution.models.checkpoint import Checkpoint, open_checkpoint
from okibi.execution.models.family import Model
from okibi.execution.models.fingerprint import fingerprint
from okibi.execution.models.native import (
    NativeModel,
    NativeUnavailable,
    choose_options,
    installed_levels,
)
from okibi.execution.models.registry import MODEL_FAMILIES


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model with its weights, and what the rest of the system needs to know about it.

    Attributes:
        kernels: Which kernels run it, in words.
        dtype: Of keys and values.
    """

    arch: Arch
    module: Model | NativeModel
    kernels: str
    device: torch.device
    dtype: KVDType
    fingerprint: str
    eos_token_ids: tuple[int, ...]


def load_model(
    path: Path,
    *,
    device: str = "cpu",
    dtype: str = "auto",
    kernels: KernelChoice = KernelChoice.AUTO,
    level: str | None = None,
) -> LoadedModel:
    """Load a Hugging Face folder or a GGUF file.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        dtype: `auto`, `float32`, `bfloat16` or `float16`: of weights, arithmetic and KV.
        level: Instruction set of native kernels; None for the fastest.

    Raises:
        ModelError: the checkpoint is missing, broken or of an unknown architecture.
        ConfigError: the device, dtype or kernels cannot be had, or the weights do not fit.
    """
    target = resolve_device(device)
    kv_dtype = resolve_dtype(dtype, target)
    checkpoint = open_checkpoint(path)
    arch = parse_config(checkpoint.config)
    # A checkpoint that does not fit is found out before memory is taken for it.
    MODEL_FAMILIES[arch.family].check_weights(arch, checkpoint)
    source = _Source(arch=arch, checkpoint=checkpoint, device=target, dtype=kv_dtype)
    module, used = _load_module(source, kernels, level)
    return LoadedModel(
        arch=arch,
        module=module,
        kernels=used,
        device=target,
        dtype=kv_dtype,
        fingerprint=fingerprint(checkpoint),
        eos_token_ids=checkpoint.eos_token_ids,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What is to be loaded, and as what."""

    arch: Arch
    checkpoint: Checkpoint
    device: torch.device
    dtype: KVDType


def _load_module(
    source: _Source, choice: KernelChoice, level: str | None
) -> tuple[Model | NativeModel, str]:
    """The module on the chosen kernels, and what they are."""
    if choice is KernelChoice.REFERENCE:
        return _load_reference(source), "reference"
    try:
        return _load_native(source, level)
    except NativeUnavailable as error:
        if choice is KernelChoice.NATIVE:
            raise ConfigError(f"--kernels native: {error}") from error
        return _load_reference(source), f"reference ({error})"


def _load_native(source: _Source, level: str | None) -> tuple[NativeModel, str]:
    load_native = MODEL_FAMILIES[source.arch.family].load_native
    if load_native is None:
        raise NativeUnavailable(f"there are no native kernels for {source.arch.family}")
    options = choose_options(installed_levels(), source.device, source.dtype, level)
    module = load_native(source.arch, source.checkpoint, options)
    return module, f"native ({options.level}, {options.num_threads} threads)"


def _load_reference(source: _Source) -> Model:
    module = _make_module(source.arch, source.device, TORCH_DTYPES[source.dtype])
    MODEL_FAMILIES[source.arch.family].load_weights(module, source.arch, source.checkpoint)
    return module


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
