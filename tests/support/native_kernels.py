"""The kernels that a model may run on, as parameters of tests.

`reference` is torch; every other name is an instruction set of the native kernels, and is skipped
where the C++ part is not built or the machine has no such instructions.
"""

from pathlib import Path

import pytest

from okibi.core.kernels import KernelChoice
from okibi.execution.models.family import Model
from okibi.execution.models.loader import LoadedModel, load_model
from okibi.execution.models.native import installed_levels

FLOAT32_LEVELS = ("portable", "avx2", "avx512")
LEVELS = (*FLOAT32_LEVELS, "avx512_bf16", "amx")


def level_params(levels: tuple[str, ...]) -> list:
    """Parameters for these instruction sets."""
    return [
        pytest.param(
            level,
            marks=pytest.mark.skipif(
                level not in installed_levels(), reason=f"there are no {level} kernels here"
            ),
        )
        for level in levels
    ]


def kernel_params() -> list:
    """Parameters for everything that computes in float32."""
    return [pytest.param("reference"), *level_params(FLOAT32_LEVELS)]


def load_on(path: Path, kernels: str, *, dtype: str = "float32") -> LoadedModel:
    """Load on `reference` or on an instruction set."""
    if kernels == "reference":
        return load_model(path, dtype=dtype, kernels=KernelChoice.REFERENCE)
    return load_model(path, dtype=dtype, kernels=KernelChoice.NATIVE, level=kernels)


def torch_module(model: LoadedModel) -> Model:
    """The module of a model on the reference."""
    assert isinstance(model.module, Model)
    return model.module
