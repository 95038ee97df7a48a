"""Writes a Hugging Face tokenizer folder from a GGUF file.

The outside harness wants a local tokenizer; a GGUF file carries the vocabulary, merges and chat
template. Only the SmolLM2 family is known here: byte-level BPE, digits one by one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_KNOWN_PRE_TOKENIZERS = ("smollm",)
_CONTROL_TOKEN = 3


def export_tokenizer(gguf: Path, folder: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`; raise ValueError for other families."""
    fields = GGUFReader(gguf).fields

    def value(key: str) -> Any:
        return fields[f"tokenizer.{key}"].contents()

    if value("ggml.pre") not in _KNOWN_PRE_TOKENIZERS:
        raise ValueError(f"{gguf} uses the unknown pre-tokenizer {value('ggml.pre')!r}")
    tokens: list[str] = value("ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in value("ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = value("ggml.token_type")
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[value("ggml.bos_token_id")],
        "eos_token": tokens[value("ggml.eos_token_id")],
        "pad_token": tokens[value("ggml.eos_token_id")],
        "chat_template": value("chat_template"),
        "model_max_length": 8192,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
