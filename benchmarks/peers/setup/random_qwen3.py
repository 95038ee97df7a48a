"""Writes a model of Qwen3-0.6B's shape with random weights: `python -m ... GGUF FOLDER`.

Speed does not depend on what weights hold. The tokenizer is that of the GGUF file, with made-up
tokens appended, so that every id the model can draw has a text; no text is ever encoded to those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.harness.export_tokenizer import export_tokenizer

SEED = 0
VOCAB_SIZE = 151_936


def main(gguf: Path, folder: Path) -> None:
    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    Qwen3ForCausalLM._from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    export_tokenizer(gguf, folder)
    _append_tokens(folder / "tokenizer.json")


def _append_tokens(path: Path) -> None:
    """Give every id a text. Digits never merge, so no text becomes one of these."""
    content = json.loads(path.read_text())
    vocabulary: dict[str, int] = content["model"]["vocab"]
    vocabulary.update({f"w{number}": number for number in range(len(vocabulary), VOCAB_SIZE)})
    path.write_text(json.dumps(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
