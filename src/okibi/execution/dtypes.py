"""Names of element types and devices, turned into torch's.

Owns the choice behind `--dtype auto` and the checks of `--device`. Decides nothing else.
"""

import torch

from okibi.core.errors import ConfigError
from okibi.core.kv_spec import KVDType

TORCH_DTYPES: dict[KVDType, torch.dtype] = {
    KVDType.FLOAT32: torch.float32,
    KVDType.BFLOAT16: torch.bfloat16,
    KVDType.FLOAT16: torch.float16,
}


def resolve_device(name: str) -> torch.device:
    """The device that `--device` names: `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigError: there is no such device.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"--device {name}: not a device name (try cpu or cuda)") from error
    if device.type not in {"cpu", "cuda"}:
        raise ConfigError(f"--device {name}: okibi runs on cpu and cuda")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(f"--device {name}: this PyTorch sees no CUDA device (try cpu)")
        if (device.index or 0) >= torch.cuda.device_count():
            raise ConfigError(f"--device {name}: only {torch.cuda.device_count()} CUDA devices")
    return device


def resolve_dtype(name: str, device: torch.device) -> KVDType:
    """The element type that `--dtype` names: `auto`, `float32`, `bfloat16` or `float16`.

    `auto` is bfloat16 where the hardware multiplies it, else float32.

    Raises:
        ConfigError: the name is unknown.
    """
    if name == "auto":
        return KVDType.BFLOAT16 if _has_bfloat16(device) else KVDType.FLOAT32
    try:
        return KVDType(name)
    except ValueError as error:
        choices = ", ".join(["auto", *KVDType])
        raise ConfigError(f"--dtype {name}: choose one of {choices}") from error


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
