"""Tiny random checkpoints of every family, saved as Hugging Face folders.

Weights are drawn wide enough that every part of a model moves its logits: a forgotten bias, norm,
window or rope scaling cannot hide. Needs transformers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB_SIZE = 259
WINDOW = 8
MAX_POSITION = 128

SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITION,
}

LLAMA3_ROPE: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 8.0,
    "original_max_position_embeddings": 16,
}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}

CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "llama_tied_llama3_rope": lambda: LlamaConfig(
        **SHAPE, tie_word_embeddings=True, rope_parameters=dict(LLAMA3_ROPE)
    ),
    "llama_biases_linear_rope": lambda: LlamaConfig(
        **SHAPE, attention_bias=True, mlp_bias=True, rope_parameters=dict(LINEAR_ROPE)
    ),
    "qwen2": lambda: Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen2_upper_windows": lambda: Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=16),
    "qwen3_yarn": lambda: Qwen3Config(
        **SHAPE, head_dim=16, attention_bias=True, rope_parameters=dict(YARN_ROPE)
    ),
    "mistral": lambda: MistralConfig(**SHAPE, head_dim=16, sliding_window=None),
    "mistral_window": lambda: MistralConfig(**SHAPE, sliding_window=WINDOW),
}

_CLASSES: dict[str, type[PreTrainedModel]] = {
    "llama": LlamaForCausalLM,
    "qwen2": Qwen2ForCausalLM,
    "qwen3": Qwen3ForCausalLM,
    "mistral": MistralForCausalLM,
}


def make_transformers_model(config: PreTrainedConfig, *, seed: int = 0) -> PreTrainedModel:
    """A float32 model with every weight drawn from `seed`."""
    model = _CLASSES[config.model_type](config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if name.endswith("norm.weight"):
                weight.copy_(1.0 + 0.3 * noise)
            elif weight.dim() == 1:
                weight.copy_(0.5 * noise)
            else:
                weight.copy_(noise * weight.shape[1] ** -0.5)
    return model


def save_tiny_model(name: str, folder: Path, *, seed: int = 0, **save: Any) -> PreTrainedModel:
    """Save the checkpoint called `name` in `CONFIGS`; returns the model it was made from."""
    model = make_transformers_model(CONFIGS[name](), seed=seed)
    model.save_pretrained(folder, **save)
    return model
