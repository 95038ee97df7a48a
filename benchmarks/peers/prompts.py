"""Prompts of random token ids: the same for every peer, new for every repeat and run.

Pure: equal arguments, equal ids. Two prompts of different keys differ from the first tokens on, so
no cache can hold a prefix of one because it has seen the other.
"""

from __future__ import annotations

import random

FIRST_ID = 256
"""Ids below are control tokens and single bytes in the tokenizers at hand."""


class PromptSource:
    """Draws prompts for one run."""

    def __init__(self, nonce: str, vocab_size: int) -> None:
        """`nonce` tells runs apart; ids stay below `vocab_size`."""
        self._nonce = nonce
        self._ids = range(FIRST_ID, vocab_size)

    def key(self, key: str) -> str:
        """`key`, made this run's own."""
        return f"{self._nonce}:{key}"

    def token_ids(self, key: str, num_tokens: int) -> list[int]:
        """`num_tokens` ids for `key`."""
        return random.Random(self.key(key)).choices(self._ids, k=num_tokens)
