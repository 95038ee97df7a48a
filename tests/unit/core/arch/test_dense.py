"""The numbers of an architecture equal those of real models: transformers' and okibi's own."""

from pathlib import Path

import pytest
import torch

from okibi.core.arch import kv_bytes_per_token, kv_specs, num_parameters, parse_config
from okibi.core.arch.dense import weight_shapes
from okibi.core.kv_spec import KVDType
from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.dense.weights import destinations
from tests.support.tiny_models import CONFIGS, make_transformers_model


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_transformers(name: str, tmp_path: Path):
    config = CONFIGS[name]()
    model = make_transformers_model(config)
    arch = parse_config(config.to_dict())
    theirs = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert weight_shapes(arch) == theirs
    assert num_parameters(arch) == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_the_torch_model(name: str):
    arch = parse_config(CONFIGS[name]().to_dict())
    with torch.device("meta"):
        module = DenseModel(arch, torch.device("cpu"))
    ours = {name: tuple(part.shape) for name, part in destinations(module, arch).items()}
    assert ours == weight_shapes(arch)
    assert num_parameters(arch) == sum(weight.numel() for weight in module.parameters())


def test_kv_is_counted_by_layer_and_type():
    arch = parse_config(CONFIGS["qwen3"]().to_dict())
    specs = kv_specs(arch, KVDType.BFLOAT16)
    assert [spec.layer for spec in specs] == [0, 1, 2]
    assert kv_bytes_per_token(arch, KVDType.BFLOAT16) == 3 * 2 * 2 * 16 * 2
    assert kv_bytes_per_token(arch, KVDType.FLOAT32) == 3 * 2 * 2 * 16 * 4
