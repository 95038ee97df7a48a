"""How byte-level BPE vocabularies split text into words before merging.

Owns the named variants that GGUF files refer to (`tokenizer.ggml.pre`), and the knowledge of which
pre-tokenizers always cut between two words.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

# The splitting patterns as published in the models' tokenizer.json files.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORD_CUTTING_PATTERNS = (LLAMA3_PATTERN, QWEN2_PATTERN, TEKKEN_PATTERN)


def _gpt2() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _gpt2()])


def _by_pattern(pattern: str) -> Callable[[], PreTokenizer]:
    return lambda: Sequence(
        [
            Split(Regex(pattern), behavior="isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


PRETOKENIZERS: Mapping[str, Callable[[], PreTokenizer]] = {
    "default": _gpt2,
    "gpt-2": _gpt2,
    "smollm": _smollm,
    "llama-bpe": _by_pattern(LLAMA3_PATTERN),
    "llama3": _by_pattern(LLAMA3_PATTERN),
    "llama-v3": _by_pattern(LLAMA3_PATTERN),
    "qwen2": _by_pattern(QWEN2_PATTERN),
    "tekken": _by_pattern(TEKKEN_PATTERN),
}
"""Builders by the name a GGUF file uses."""

IGNORE_MERGES = frozenset({"llama-bpe", "llama3", "llama-v3", "tekken"})
"""Variants that take a word as one token whenever the vocabulary has it."""

NFC_NORMALISED = frozenset({"qwen2"})
"""Variants whose text is brought to Unicode normal form C first."""


def cuts_between_words(tokenizer: Tokenizer) -> bool:
    """Whether a text may be cut at the end of a word, and yield the same tokens.

    A word ends before a space that follows anything printable, and after ASCII letters or digits
    before a newline, punctuation, or the other of the two. True if the pre-tokenizer always
    cuts there, and matches from left to right without looking back, and no added token is left
    for it to find inside a piece.
    """
    if any(token.normalized for token in tokenizer.get_added_tokens_decoder().values()):
        return False
    normalizer = _state(tokenizer.normalizer)
    if normalizer is not None and normalizer["type"] != "NFC":
        return False
    pre_tokenizer = _state(tokenizer.pre_tokenizer)
    if pre_tokenizer is None:
        return False
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    return all(map(_keeps_words_apart, steps)) and any(map(_splits_words, steps))


def _keeps_words_apart(step: dict[str, Any]) -> bool:
    match step["type"]:
        case "Digits":
            return True
        case "ByteLevel":
            return not step["add_prefix_space"]
        case _:
            return _splits_words(step)


def _splits_words(step: dict[str, Any]) -> bool:
    if step["type"] == "ByteLevel":
        return bool(step.get("use_regex", True))
    return (
        step["type"] == "Split"
        and step["pattern"].get("Regex") in _WORD_CUTTING_PATTERNS
        and step["behavior"] == "Isolated"
        and not step["invert"]
    )


def _state(component: Any) -> dict[str, Any] | None:
    return None if component is None else json.loads(component.__getstate__())
