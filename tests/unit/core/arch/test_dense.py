"""The numbers of an architecture equal those of real models: transformers' and okibi's own."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedConfig

from okibi.core.arch import parse_config
from okibi.core.arch.dense import DenseArch, weight_shapes
from okibi.core.kv_spec import KVDType
from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.dense.weights import destinations
from tests.support.tiny_models import CONFIGS, make_transformers_model


def parse_dense(config: PreTrainedConfig) -> DenseArch:
    arch = parse_config(config.to_dict())
    assert isinstance(arch, DenseArch)
    return arch


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_transformers(name: str, tmp_path: Path):
    config = CONFIGS[name]()
    model = make_transformers_model(config)
    arch = parse_dense(config)
    theirs = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert weight_shapes(arch) == theirs
    assert arch.num_parameters() == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_are_those_of_the_torch_model(name: str):
    arch = parse_dense(CONFIGS[name]())
    with torch.device("meta"):
        module = DenseModel(arch, torch.device("cpu"))
    ours = {name: tuple(part.shape) for name, part in destinations(module, arch).items()}
    assert ours == weight_shapes(arch)
    assert arch.num_parameters() == sum(weight.numel() for weight in module.parameters())


def test_every_layer_keeps_keys_and_values():
    specs = parse_dense(CONFIGS["qwen3"]()).kv_specs(KVDType.BFLOAT16)
    assert [spec.layer for spec in specs] == [0, 1, 2]
    assert {spec.bytes_per_token for spec in specs} == {2 * 2 * 16 * 2}


PUBLISHED: dict[str, tuple[dict[str, object], int]] = {
    "SmolLM2-135M": (
        {
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49152,
            "max_position_embeddings": 8192,
            "rope_theta": 100000,
            "rope_scaling": None,
            "tie_word_embeddings": True,
        },
        134_515_008,
    ),
    "Llama-3.2-1B": (
        {
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "vocab_size": 128256,
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            "tie_word_embeddings": True,
        },
        1_235_814_400,
    ),
    "Qwen2.5-0.5B": (
        {
            "architectures": ["Qwen2ForCausalLM"],
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "vocab_size": 151936,
            "max_position_embeddings": 32768,
            "max_window_layers": 24,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "use_sliding_window": False,
            "tie_word_embeddings": True,
        },
        494_032_768,
    ),
    "Qwen3-0.6B": (
        {
            "architectures": ["Qwen3ForCausalLM"],
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_bias": False,
            "vocab_size": 151936,
            "max_position_embeddings": 40960,
            "rope_theta": 1000000,
            "sliding_window": None,
            "tie_word_embeddings": True,
        },
        596_049_920,
    ),
    "Mistral-7B-v0.1": (
        {
            "architectures": ["MistralForCausalLM"],
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "max_position_embeddings": 32768,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
        },
        7_241_732_096,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_published_size(name: str):
    config, count = PUBLISHED[name]
    assert parse_config(config).num_parameters() == count
