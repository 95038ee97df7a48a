"""Chooses the words that prompts are made of.

A word is exact if it is one token both after a space and at the start of a line (a message begins
without a space). Groups are tested at once and halved where a member fails, so a thousand
candidates cost some dozens of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.text.counting import TokenCounter
from okibi.bench.text.words import CANDIDATE_WORDS

_GROUP = 64
_MIN_EXACT_WORDS = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Words and the mean number of tokens of one; `source` says how that is known."""

    words: tuple[str, ...]
    tokens_per_word: float
    source: str


def assumed_vocabulary() -> Vocabulary:
    """Words that are one token in every large tokenizer; not checked."""
    return Vocabulary(words=CANDIDATE_WORDS, tokens_per_word=1.0, source="assumed")


async def measured_vocabulary(counter: TokenCounter, described_as: str) -> Vocabulary:
    """Words checked with `counter`, which reports call `described_as`.

    Falls back to a measured mean where the tokenizer has too few whole words (tiny or byte-level
    vocabularies): counts are then right on average only.
    """
    exact: list[str] = []
    for start in range(0, len(CANDIDATE_WORDS), _GROUP):
        found = await _exact_words(counter, CANDIDATE_WORDS[start : start + _GROUP])
        if not found:
            break  # no tokenizer of words: testing every candidate would only take time
        exact.extend(found)
    if len(exact) >= _MIN_EXACT_WORDS:
        return Vocabulary(words=tuple(exact), tokens_per_word=1.0, source=f"exact ({described_as})")
    num_tokens = await counter.count(" ".join(CANDIDATE_WORDS))
    return Vocabulary(
        words=CANDIDATE_WORDS,
        tokens_per_word=max(1, num_tokens) / len(CANDIDATE_WORDS),
        source=f"mean ({described_as})",
    )


async def _exact_words(counter: TokenCounter, words: Sequence[str]) -> list[str]:
    num_spaced = await counter.count(" ".join(words))
    num_lines = await counter.count("\n".join(words))
    num_breaks = len(words) - 1
    if num_spaced == len(words) and num_lines - len(words) in (0, num_breaks):
        return list(words)  # some tokenizers drop line breaks
    if len(words) == 1:
        return []
    middle = len(words) // 2
    return [
        *await _exact_words(counter, words[:middle]),
        *await _exact_words(counter, words[middle:]),
    ]
