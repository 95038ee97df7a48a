"""GGUF metadata, said as a Hugging Face config.

Owns the translation of keys. What a GGUF file can express but okibi does not run (experts,
partial rope, per-layer head counts, split files) is refused here, because the resulting config
could not say it.
"""

from collections.abc import Mapping

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.checkpoint import TensorInfo

Metadata = Mapping[str, object]

FAMILY_OF = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}

_COUNTS = {
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}


def config_from_gguf(
    metadata: Metadata, tensors: Mapping[str, TensorInfo], rope_divisors: list[float] | None
) -> dict[str, object]:
    """The config.json that the metadata amounts to.

    Args:
        tensors: By GGUF name; biases and the presence of an output matrix show only here.
        rope_divisors: Content of `rope_freqs.weight`, if the file has it.

    Raises:
        ModelError: the architecture is unknown or uses something unsupported.
    """
    name = str(metadata.get("general.architecture"))
    if name not in FAMILY_OF:
        known = ", ".join(FAMILY_OF)
        raise ModelError(f"okibi does not know the GGUF architecture {name!r}; known: {known}")
    own = {
        key.removeprefix(f"{name}."): value
        for key, value in metadata.items()
        if key.startswith(f"{name}.")
    }
    _refuse_unsupported(metadata, own)
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError("the GGUF file has no tensor token_embd.weight")
    config: dict[str, object] = {
        ours: own[theirs] for ours, theirs in _COUNTS.items() if theirs in own
    }
    config["model_type"] = FAMILY_OF[name]
    config["vocab_size"] = embedding.shape[0]
    config["tie_word_embeddings"] = "output.weight" not in tensors
    config["attention_bias"] = "blk.0.attn_output.bias" in tensors
    config["mlp_bias"] = "blk.0.ffn_down.bias" in tensors
    config["rope_parameters"] = _rope(own, rope_divisors)
    return config


def _rope(own: Metadata, divisors: list[float] | None) -> dict[str, object]:
    rope: dict[str, object] = {"rope_type": "default"}
    if "rope.freq_base" in own:
        rope["rope_theta"] = own["rope.freq_base"]
    kind = own.get("rope.scaling.type", "none")
    if divisors is not None:
        if kind != "none":
            raise ModelError(f"okibi does not support rope scaling {kind!r} with rope_freqs")
        return rope | {"rope_type": "frequency_divisors", "divisors": divisors}
    if kind == "none":
        return rope
    rope |= {"rope_type": kind, "factor": own.get("rope.scaling.factor")}
    if "rope.scaling.original_context_length" in own:
        original = own["rope.scaling.original_context_length"]
        rope["original_max_position_embeddings"] = original
    return rope


def _refuse_unsupported(metadata: Metadata, own: Metadata) -> None:
    if metadata.get("split.count", 1) not in (0, 1):
        raise ModelError("okibi does not read split GGUF files; merge them with gguf-split")
    if own.get("expert_count", 0):
        raise ModelError("okibi does not support GGUF files with experts")
    if own.get("attention.sliding_window", 0):
        raise ModelError("okibi does not support GGUF files with a sliding window")
    heads, hidden = own.get("attention.head_count"), own.get("embedding_length")
    if not isinstance(heads, int) or not isinstance(hidden, int) or heads < 1:
        raise ModelError("the GGUF file does not say one head count and embedding length")
    head_dim = own.get("attention.key_length", hidden // heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if own.get(key, head_dim) != head_dim:
            raise ModelError(f"okibi needs {key} = {head_dim}, the GGUF file says {own[key]}")
