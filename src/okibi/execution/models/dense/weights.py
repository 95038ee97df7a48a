"""Where each checkpoint tensor goes in a `DenseModel`.

Owns the names of both formats and the one difference in layout: GGUF files of the llama
architecture interleave the two halves of every query and key head, because llama.cpp rotates
neighbouring dimensions. The model rotates halves, so their rows are put back.
"""

import re
from collections.abc import Iterable
from typing import cast

import torch

from okibi.core.arch.dense import DenseArch, weight_shapes
from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.checkpoint import Checkpoint, TensorFormat
from okibi.execution.models.dense.model import DecoderLayer, DenseModel

_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_INTERLEAVED = re.compile(r"self_attn\.[qk]_proj\.")
# Derived values that some checkpoints store beside the weights.
_DERIVED = re.compile(r"rope_freqs\.weight|.*rotary_emb\.inv_freq")


def locate_weights(arch: DenseArch, checkpoint: Checkpoint) -> dict[str, str]:
    """The checkpoint's own name of every weight, by its Hugging Face name. Reads headers only.

    Raises:
        ModelError: a tensor is missing, has a wrong shape, or is not part of the architecture.
    """
    is_gguf = checkpoint.format is TensorFormat.GGUF
    unread = dict(checkpoint.tensors)
    sources: dict[str, str] = {}
    for name, shape in weight_shapes(arch).items():
        source = gguf_name(name) if is_gguf else name
        info = unread.pop(source, None)
        if info is None:
            raise ModelError(f"the checkpoint has no tensor {source}")
        if info.shape != shape:
            raise ModelError(
                f"tensor {source} has shape {list(info.shape)}, the config asks for {list(shape)}"
            )
        sources[name] = source
    _refuse_leftovers(list(unread), arch)
    return sources


@torch.no_grad()
def load_weights(model: DenseModel, arch: DenseArch, checkpoint: Checkpoint) -> None:
    """Fill every parameter of `model`, converting to its type and device.

    Raises:
        ModelError: the checkpoint does not fit the architecture, or cannot be read.
    """
    targets = destinations(model, arch)
    for name, source in locate_weights(arch, checkpoint).items():
        tensor = checkpoint.read(source)
        if is_interleaved(name, arch, checkpoint.format):
            tensor = split_halves(tensor, arch.head_dim)
        targets[name].copy_(tensor)


def destinations(model: DenseModel, arch: DenseArch) -> dict[str, torch.Tensor]:
    """The part of a parameter that each Hugging Face tensor fills; fused ones are sliced."""
    targets: dict[str, torch.Tensor] = {"model.embed_tokens.weight": model.embed_tokens.weight}
    for index, layer in enumerate(cast("Iterable[DecoderLayer]", model.layers)):
        attention, mlp = layer.attention, layer.mlp
        names = (
            ("self_attn.", ("q_proj", "k_proj", "v_proj"), attention.qkv_proj, attention.sizes),
            ("self_attn.", ("o_proj",), attention.o_proj, (arch.hidden_size,)),
            ("mlp.", ("gate_proj", "up_proj"), mlp.gate_up_proj, (arch.intermediate_size,) * 2),
            ("mlp.", ("down_proj",), mlp.down_proj, (arch.hidden_size,)),
            ("", ("input_layernorm",), layer.attention_norm, (arch.hidden_size,)),
            ("", ("post_attention_layernorm",), layer.mlp_norm, (arch.hidden_size,)),
            ("self_attn.", ("q_norm",), attention.q_norm, (arch.head_dim,)),
            ("self_attn.", ("k_norm",), attention.k_norm, (arch.head_dim,)),
        )
        for prefix, parts, module, sizes in names:
            for parameter_name, parameter in module.named_parameters():
                for part, rows in zip(parts, parameter.split(sizes), strict=True):
                    targets[f"model.layers.{index}.{prefix}{part}.{parameter_name}"] = rows
    targets["model.norm.weight"] = model.norm.weight
    if model.lm_head is not None:
        targets["lm_head.weight"] = model.lm_head.weight
    return targets


def gguf_name(name: str) -> str:
    """The GGUF name of a Hugging Face tensor."""
    prefix = ""
    if match := _LAYER.fullmatch(name):
        prefix, name = f"blk.{match[1]}.", match[2]
    stem, _, kind = name.rpartition(".")
    return f"{prefix}{_GGUF_NAMES[stem]}.{kind}"


def split_halves(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Undo the interleaving: rows (0, 1, 2, ...) of each head become (0, 2, ..., 1, 3, ...)."""
    pairs = rows.unflatten(0, (-1, head_dim // 2, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def is_interleaved(name: str, arch: DenseArch, tensors: TensorFormat) -> bool:
    """Whether the rows of this Hugging Face name are stored with the halves of heads mixed."""
    is_llama_gguf = tensors is TensorFormat.GGUF and arch.family == "llama"
    return is_llama_gguf and _INTERLEAVED.search(name) is not None


def _refuse_leftovers(names: list[str], arch: DenseArch) -> None:
    tied = {"lm_head.weight", "output.weight"} if arch.tie_word_embeddings else set()
    unknown = [name for name in names if name not in tied and not _DERIVED.fullmatch(name)]
    if unknown:
        raise ModelError(
            f"the checkpoint has {len(unknown)} tensors that the architecture "
            f"{arch.family!r} does not use, such as {unknown[0]}"
        )
