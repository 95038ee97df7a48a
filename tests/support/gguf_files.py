"""Writes tiny GGUF files from transformers models, as llama.cpp's converter lays them out.

Tensor names come from the `gguf` package's own table and the interleaving of llama's heads is
written out here once more, so that neither is checked against okibi's own idea of it.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as QType
from transformers import PreTrainedModel

GGUF_ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
EOS_TOKEN_ID = 3


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    *,
    qtype: QType = QType.F32,
    rope_divisors: list[float] | None = None,
    metadata: dict[str, int | float | str] | None = None,
) -> dict[str, torch.Tensor]:
    """Write the model with its matrices as `qtype`.

    Args:
        metadata: Further keys below the architecture's name.

    Returns:
        The weights as they are after quantisation, under their Hugging Face names.
    """
    config: Any = model.config
    arch = GGUF_ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    _write_metadata(writer, config)
    for key, value in (metadata or {}).items():
        _add(writer, f"{gguf.MODEL_ARCH_NAMES[arch]}.{key}", value)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    weights: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name is not None
        weights[name] = _write_tensor(writer, gguf_name, name, weight, qtype, config)
    if rope_divisors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(rope_divisors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def _write_metadata(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_eos_token_id(EOS_TOKEN_ID)
    writer.add_token_list([f"token {index}" for index in range(config.vocab_size)])


def _add(writer: gguf.GGUFWriter, key: str, value: float | str) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    else:
        writer.add_float32(key, value)


def _write_tensor(
    writer: gguf.GGUFWriter,
    gguf_name: str,
    name: str,
    weight: torch.Tensor,
    qtype: QType,
    config: Any,
) -> torch.Tensor:
    num_heads = {
        "q_proj": config.num_attention_heads,
        "k_proj": config.num_key_value_heads,
    }.get(name.split(".")[-2], 0)
    is_interleaved = config.model_type == "llama" and num_heads > 0
    values = weight.numpy()
    if is_interleaved:
        values = _interleave(values, num_heads)
    if values.ndim == 1:
        writer.add_tensor(gguf_name, np.ascontiguousarray(values))
        return weight
    packed = quantise(np.ascontiguousarray(values), qtype)
    writer.add_tensor(gguf_name, packed, raw_dtype=qtype)
    kept = gguf.dequantize(packed, qtype)
    return torch.from_numpy(deinterleave(kept, num_heads) if is_interleaved else kept.copy())


def quantise(values: np.ndarray, qtype: QType) -> np.ndarray:
    """Quantise a matrix; K types, which `gguf` cannot write, get random blocks of sane scale."""
    try:
        return gguf.quantize(values, qtype)
    except NotImplementedError:
        return _random_blocks(values.shape, qtype)


def _random_blocks(shape: tuple[int, ...], qtype: QType) -> np.ndarray:
    block_size, type_size = gguf.GGML_QUANT_SIZES[qtype]
    num_blocks = shape[-1] // block_size
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 256, (*shape[:-1], num_blocks, type_size), dtype=np.uint8)
    scales = np.array([2e-4, 1e-4], dtype=np.float16).view(np.uint8)
    # Where a block has its scale, and its minimum behind it.
    match qtype:
        case QType.Q6_K:
            blocks[..., -2:] = scales[:2]
        case QType.Q2_K:
            blocks[..., -4:] = scales
        case _:
            blocks[..., :4] = scales
    return blocks.reshape(*shape[:-1], num_blocks * type_size)


def _interleave(values: np.ndarray, num_heads: int) -> np.ndarray:
    """llama.cpp's order of a head's rows: 0, half, 1, half + 1, ..."""
    rows = values.shape[0]
    halves = values.reshape(num_heads, 2, rows // num_heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def deinterleave(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Hugging Face's order of a head's rows, from llama.cpp's."""
    rows = values.shape[0]
    pairs = values.reshape(num_heads, rows // num_heads // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
