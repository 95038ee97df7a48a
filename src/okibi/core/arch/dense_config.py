"""The part of config.json that all dense families spell alike.

Owns the shared keys and the refusal of features that no dense family here has. A family file adds
its own keys to the result.
"""

from dataclasses import dataclass
from typing import TypedDict

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.rope import RopeSpec, extended_context, parse_rope
from okibi.core.errors import ModelError

MAX_LAYERS = 10_000
"""Above it a config is broken; without a limit it would take the machine's memory with it."""


class DenseFields(TypedDict):
    """Keyword arguments of `DenseArch` that `parse_dense` fills in."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_norm_eps: float
    rope: RopeSpec
    max_position: int
    tie_word_embeddings: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseDefaults:
    """What a family assumes where its config is silent."""

    max_position: int
    head_dim: int | None = None


def parse_dense(config: ConfigReader, defaults: DenseDefaults) -> DenseFields:
    """Read the shared keys.

    Raises:
        ModelError: a key is missing or wrong, or asks for something unsupported.
    """
    _refuse_unsupported(config)
    hidden_size = config.count("hidden_size")
    num_heads = config.count("num_attention_heads")
    num_kv_heads = config.count("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise ModelError(f"{num_heads} attention heads do not divide over {num_kv_heads} KV heads")
    head_dim = config.count("head_dim", defaults.head_dim or hidden_size // num_heads)
    if head_dim % 2:
        raise ModelError(f"rope needs an even head_dim, the model's config says {head_dim}")
    max_position = config.count("max_position_embeddings", defaults.max_position)
    rope = parse_rope(config, head_dim=head_dim, max_position=max_position)
    num_layers = config.count("num_hidden_layers")
    if num_layers > MAX_LAYERS:
        raise ModelError(f"the model's config says {num_layers} layers, which cannot be right")
    return DenseFields(
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        intermediate_size=config.count("intermediate_size"),
        vocab_size=config.count("vocab_size"),
        rms_norm_eps=config.positive("rms_norm_eps", 1e-6),
        rope=rope,
        max_position=extended_context(rope, max_position),
        tie_word_embeddings=config.flag("tie_word_embeddings", default=False),
    )


def parse_layer_windows(config: ConfigReader, num_layers: int) -> tuple[int | None, ...]:
    """Windows of the families that switch them on by `use_sliding_window` (Qwen2, Qwen3)."""
    window = config.optional_count("sliding_window")
    if window is None or not config.flag("use_sliding_window", default=False):
        return (None,) * num_layers
    kinds = config.texts("layer_types")
    if kinds is None:
        first = config.count("max_window_layers", 28)
        return tuple(window if layer >= first else None for layer in range(num_layers))
    if len(kinds) != num_layers:
        raise ModelError(f"layer_types names {len(kinds)} layers, the model has {num_layers}")
    meaning = {"full_attention": None, "sliding_attention": window}
    unknown = [kind for kind in kinds if kind not in meaning]
    if unknown:
        raise ModelError(f"okibi does not support layers of type {unknown[0]!r}")
    return tuple(meaning[kind] for kind in kinds)


def _refuse_unsupported(config: ConfigReader) -> None:
    config.refuse_unless("hidden_act", "silu")
    config.refuse_unless("quantization_config")
    for key in ("num_local_experts", "num_experts"):
        config.refuse_unless(key, 0)
