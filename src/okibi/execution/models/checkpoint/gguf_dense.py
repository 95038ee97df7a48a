"""The config of a dense decoder, from GGUF metadata.

Owns the translation of keys for the architectures that GGUF calls llama, qwen2 and qwen3. What a
file can express but okibi does not run (experts, partial rope, per-layer head counts) is refused
here, because the resulting config could not say it.
"""

from collections.abc import Mapping

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.gguf_metadata import GGUFMetadata

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


def dense_config(metadata: GGUFMetadata) -> dict[str, object]:
    """A config.json of the family that bears the architecture's name.

    Raises:
        ModelError: the file uses something unsupported.
    """
    values, tensors = metadata.values, metadata.tensors
    _refuse_unsupported(values)
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError("the GGUF file has no tensor token_embd.weight")
    config: dict[str, object] = {
        ours: values[theirs] for ours, theirs in _COUNTS.items() if theirs in values
    }
    config["model_type"] = metadata.architecture
    config["vocab_size"] = embedding.shape[0]
    config["tie_word_embeddings"] = "output.weight" not in tensors
    config["attention_bias"] = "blk.0.attn_output.bias" in tensors
    config["mlp_bias"] = "blk.0.ffn_down.bias" in tensors
    config["rope_parameters"] = _rope(values, metadata.rope_divisors)
    return config


def _rope(values: Mapping[str, object], divisors: list[float] | None) -> dict[str, object]:
    rope: dict[str, object] = {"rope_type": "default"}
    if "rope.freq_base" in values:
        rope["rope_theta"] = values["rope.freq_base"]
    kind = values.get("rope.scaling.type", "none")
    if divisors is not None:
        if kind != "none":
            raise ModelError(f"okibi does not support rope scaling {kind!r} with rope_freqs")
        return rope | {"rope_type": "frequency_divisors", "divisors": divisors}
    if kind == "none":
        return rope
    rope |= {"rope_type": kind, "factor": values.get("rope.scaling.factor")}
    if "rope.scaling.original_context_length" in values:
        original = values["rope.scaling.original_context_length"]
        rope["original_max_position_embeddings"] = original
    return rope


def _refuse_unsupported(values: Mapping[str, object]) -> None:
    if values.get("expert_count", 0):
        raise ModelError("okibi does not support GGUF files with experts")
    if values.get("attention.sliding_window", 0):
        raise ModelError("okibi does not support GGUF files with a sliding window")
    heads, hidden = values.get("attention.head_count"), values.get("embedding_length")
    if not isinstance(heads, int) or not isinstance(hidden, int) or heads < 1:
        raise ModelError("the GGUF file does not say one head count and embedding length")
    head_dim = values.get("attention.key_length", hidden // heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if values.get(key, head_dim) != head_dim:
            raise ModelError(f"okibi needs {key} = {head_dim}, the GGUF file says {values[key]}")
