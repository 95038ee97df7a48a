"""Writes a GGUF model as a Hugging Face folder in bfloat16: `python -m ... GGUF FOLDER`.

A process of its own, since it needs torch and the memory of the whole model. Weights are those of
the file, dequantised in float32 and rounded once. Without okibi's own loader, so that a mistake in
it shows as a difference between the forms.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from benchmarks.harness.export_tokenizer import export_tokenizer


def main(source: Path, folder: Path) -> None:
    config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
    config.dtype = torch.bfloat16
    model = AutoModelForCausalLM.from_config(config)
    _fill(model, source)
    model.save_pretrained(folder)
    try:
        export_tokenizer(source, folder)
    except ValueError:  # a family whose tokenizer only transformers can rebuild
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def _fill(model: PreTrainedModel, source: Path) -> None:
    """Put every tensor of the file in its place; each parameter and each tensor has one."""
    reader = gguf.GGUFReader(source)
    family = reader.fields["general.architecture"].contents()
    (arch,) = [arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == family]
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            tensor = tensors.pop(names.get_name(name, try_suffixes=(".weight", ".bias")) or name)
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            if family == "llama" and (".q_proj." in name or ".k_proj." in name):
                values = _halves(values, values.shape[0] // _head_dim(model))
            weight.copy_(torch.from_numpy(values.copy()))
    if tensors:
        raise ValueError(f"{source} has tensors without a place: {sorted(tensors)}")


def _head_dim(model: PreTrainedModel) -> int:
    config = model.config
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _halves(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of each head from rotary pairs (0, 1), (2, 3), ... as GGUF has them to halves."""
    pairs = values.reshape(num_heads, -1, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
