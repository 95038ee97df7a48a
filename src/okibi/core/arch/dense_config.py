"""The part of config.json that all dense families spell alike.

Owns the shared keys and the refusal of features that no dense family here has. A family file
replaces in the result what it says otherwise.
"""

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.rope import extended_context, parse_rope
from okibi.core.errors import ModelError

MAX_LAYERS = 10_000
"""Above it a config is broken; without a limit it would take the machine's memory with it."""


def parse_dense(
    family: str,
    config: ConfigReader,
    *,
    default_max_position: int,
    default_head_dim: int | None = None,
) -> DenseArch:
    """A decoder by the shared keys alone: without windows, biases and norms on queries and keys.

    Args:
        default_max_position, default_head_dim: What the family assumes where its config is silent;
            without a default, heads share the hidden size.

    Raises:
        ModelError: a key is missing or wrong, or asks for something unsupported.
    """
    _refuse_unsupported(config)
    hidden_size = config.count("hidden_size")
    num_heads = config.count("num_attention_heads")
    num_kv_heads = config.count("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise ModelError(f"{num_heads} attention heads do not divide over {num_kv_heads} KV heads")
    head_dim = config.count("head_dim", default_head_dim or hidden_size // num_heads)
    if head_dim % 2:
        raise ModelError(f"rope needs an even head_dim, the model's config says {head_dim}")
    max_position = config.count("max_position_embeddings", default_max_position)
    rope = parse_rope(config, head_dim=head_dim, max_position=max_position)
    num_layers = config.count("num_hidden_layers")
    if num_layers > MAX_LAYERS:
        raise ModelError(f"the model's config says {num_layers} layers, which cannot be right")
    return DenseArch(
        family=family,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        intermediate_size=config.count("intermediate_size"),
        vocab_size=config.count("vocab_size"),
        rms_norm_eps=config.positive("rms_norm_eps", 1e-6),
        rope=rope,
        layer_windows=(None,) * num_layers,
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
