"""The kernels a model is loaded for: as chosen, or a reason."""

from pathlib import Path

import pytest

from okibi.core.errors import ConfigError
from okibi.core.kernels import KernelChoice
from okibi.execution.models.family import Model
from okibi.execution.models.loader import load_model
from okibi.execution.models.native import installed_levels
from tests.support.native_kernels import FLOAT32_LEVELS, level_params
from tests.support.tiny_models import save_tiny_model


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


def test_native_kernels_that_cannot_be_had_are_an_error(folder: Path):
    with pytest.raises(ConfigError, match=r"--kernels native: .*(float16|not built)"):
        load_model(folder, dtype="float16", kernels=KernelChoice.NATIVE)
