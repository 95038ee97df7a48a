"""GGUF files: the loaded model equals transformers on the same dequantised weights."""

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as QType
from transformers import LlamaConfig, PreTrainedConfig, PreTrainedModel, Qwen2Config, Qwen3Config

from okibi.execution.models.checkpoint.gguf_file import READABLE_TYPES
from okibi.execution.models.loader import load_model
from tests.numerics.helpers import PagedRunner, transformers_logits
from tests.numerics.tolerances import FLOAT32_LOGITS
from tests.support.gguf_files import EOS_TOKEN_ID, write_gguf
from tests.support.native_kernels import kernel_params, load_on
from tests.support.tiny_models import LLAMA3_ROPE, SHAPE, make_transformers_model

# K types come in blocks of 256.
WIDE: dict[str, Any] = SHAPE | {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
}
IDS = Random(5).choices(range(SHAPE["vocab_size"]), k=30)

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "llama_tied_biases": LlamaConfig(
        **SHAPE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "qwen2": Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16),
}


def okibi_logits(path: Path, kernels: str) -> torch.Tensor:
    runner = PagedRunner(load_on(path, kernels))
    return runner.logits((runner.start("a", IDS), 0, len(IDS)))[0]


def assert_same_logits(path: Path, theirs: PreTrainedModel, kernels: str = "reference") -> None:
    expected = transformers_logits(theirs, IDS)[-1]
    ours = okibi_logits(path, kernels)
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=FLOAT32_LOGITS)


@pytest.mark.parametrize("kernels", kernel_params())
@pytest.mark.parametrize("name", CONFIGS)
def test_every_family(name: str, kernels: str, tmp_path: Path):
    model = make_transformers_model(CONFIGS[name])
    write_gguf(tmp_path / "model.gguf", model)
    assert_same_logits(tmp_path / "model.gguf", model, kernels)


@pytest.mark.parametrize("kernels", kernel_params())
@pytest.mark.parametrize("qtype", sorted(READABLE_TYPES), ids=lambda qtype: qtype.name)
def test_every_type(qtype: QType, kernels: str, tmp_path: Path):
    model = make_transformers_model(LlamaConfig(**WIDE))
    kept = write_gguf(tmp_path / "model.gguf", model, qtype=qtype)
    changed = [name for name, weight in model.state_dict().items() if not weight.equal(kept[name])]
    assert bool(changed) == (qtype is not QType.F32)
    model.load_state_dict(kept)
    assert_same_logits(tmp_path / "model.gguf", model, kernels)


def test_rope_divisors_stand_for_llama3_scaling(tmp_path: Path):
    config = LlamaConfig(**SHAPE, rope_parameters=dict(LLAMA3_ROPE))
    model = make_transformers_model(config)
    divisors = llama3_divisors(head_dim=8)
    assert len(set(divisors)) > 2
    write_gguf(tmp_path / "model.gguf", model, rope_divisors=divisors)
    assert_same_logits(tmp_path / "model.gguf", model)


def test_linear_scaling_by_metadata(tmp_path: Path):
    rope = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
    model = make_transformers_model(Qwen2Config(**SHAPE, rope_parameters=rope))
    scaling = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    write_gguf(tmp_path / "model.gguf", model, metadata=scaling)
    assert_same_logits(tmp_path / "model.gguf", model)


def test_the_end_of_generation_is_the_files_own(tmp_path: Path):
    write_gguf(tmp_path / "model.gguf", make_transformers_model(CONFIGS["llama"]))
    assert load_model(tmp_path / "model.gguf").eos_token_ids == (EOS_TOKEN_ID,)


def llama3_divisors(head_dim: int) -> list[float]:
    """One divisor a frequency, by the published rule."""
    rope = LLAMA3_ROPE
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for index in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * index / head_dim)
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(factor)
        else:
            share = (original / wavelength - low) / (high - low)
            divisors.append(1.0 / ((1.0 - share) / factor + share))
    return divisors
