"""The kernels a model is loaded for: as chosen, or a reason."""

from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from okibi.core.errors import ConfigError
from okibi.core.kernels import KernelChoice
from okibi.execution.models.family import Model
from okibi.execution.models.loader import load_model
from okibi.execution.models.native import installed_levels
from tests.support.native_kernels import FLOAT32_LEVELS, level_params
from tests.support.tiny_models import SHAPE, make_transformers_model, save_tiny_model

MANY_HEADS: dict[str, Any] = SHAPE | {
    "hidden_size": 300,
    "num_attention_heads": 300,
    "num_key_value_heads": 1,
    "head_dim": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    save_tiny_model("llama", path)
    return path


def test_the_reference_can_be_asked_for(folder: Path):
    model = load_model(folder, dtype="float32", kernels=KernelChoice.REFERENCE)
    assert isinstance(model.module, Model)
    assert model.kernels == "reference"


@pytest.mark.parametrize("level", level_params(FLOAT32_LEVELS))
def test_native_kernels_can_be_asked_for(folder: Path, level: str):
    model = load_model(folder, dtype="float32", kernels=KernelChoice.NATIVE, level=level)
    assert not isinstance(model.module, Model)
    assert model.kernels.startswith(f"native ({level}, ")


def test_the_default_is_native_where_it_can_be_had(folder: Path):
    model = load_model(folder, dtype="float32")
    assert isinstance(model.module, Model) == (not installed_levels())


def test_where_it_cannot_be_had_the_reference_stands_in_and_says_why(folder: Path):
    model = load_model(folder, dtype="float16")
    assert isinstance(model.module, Model)
    assert model.kernels.startswith("reference (")


@pytest.mark.parametrize("level", level_params(FLOAT32_LEVELS))
def test_a_shape_that_the_kernels_refuse(level: str, tmp_path: Path):
    """More heads to a KV head than an attention task takes."""
    make_transformers_model(LlamaConfig(**MANY_HEADS)).save_pretrained(tmp_path)
    model = load_model(tmp_path, dtype="float32", level=level)
    assert model.kernels == "reference (a KV head serves too many heads)"
    with pytest.raises(ConfigError, match="--kernels native: a KV head"):
        load_model(tmp_path, dtype="float32", level=level, kernels=KernelChoice.NATIVE)


def test_native_kernels_that_cannot_be_had_are_an_error(folder: Path):
    with pytest.raises(ConfigError, match=r"--kernels native: .*(float16|not built)"):
        load_model(folder, dtype="float16", kernels=KernelChoice.NATIVE)
