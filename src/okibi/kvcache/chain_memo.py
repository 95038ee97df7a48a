"""Chain digests of earlier turns, so that a session hashes only what is new.

Owns a bounded map from a conversation's name to its latest prompt and that prompt's digests. The
name is only a hint: digests are reused for the tokens that are really equal, under an equal root.
"""

from collections import OrderedDict
from dataclasses import dataclass

from okibi.core.chain_hash import DIGEST_BYTES
from okibi.core.token_source import TokenSequence, TokenSource

DEFAULT_MAX_TOKENS = 16_000_000
ENTRY_TOKENS = 256


@dataclass(frozen=True, slots=True)
class _Entry:
    prompt: TokenSource
    root: bytes
    digests: bytes


class ChainMemo:
    """Least-recently-used digests, bounded by the tokens they stand for.

    What an entry costs besides its tokens is counted as `ENTRY_TOKENS` more.
    """

    def __init__(self, *, unit: int, max_tokens: int = DEFAULT_MAX_TOKENS) -> None:
        self._unit = unit
        self._max_tokens = max_tokens
        self._num_tokens = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def recall(self, conversation: str, sequence: TokenSequence) -> None:
        """Give `sequence` the digests of the units it shares with the conversation's last turn."""
        entry = self._entries.get(conversation)
        if entry is None or entry.root != sequence.root:
            return
        self._entries.move_to_end(conversation)
        num_units = entry.prompt.common_prefix(sequence.prompt) // self._unit
        sequence.adopt_digests(entry.digests[: num_units * DIGEST_BYTES])

    def remember(self, conversation: str, sequence: TokenSequence) -> None:
        """Keep the digests of a prompt under its conversation's name."""
        if not conversation or _cost(sequence.prompt) > self._max_tokens:
            return
        self._forget(conversation)
        num_units = len(sequence.prompt) // self._unit
        digests = bytes(sequence.digests()[: num_units * DIGEST_BYTES])
        self._entries[conversation] = _Entry(sequence.prompt, sequence.root, digests)
        self._num_tokens += _cost(sequence.prompt)
        while self._num_tokens > self._max_tokens:
            self._forget(next(iter(self._entries)))

    def _forget(self, conversation: str) -> None:
        entry = self._entries.pop(conversation, None)
        if entry is not None:
            self._num_tokens -= _cost(entry.prompt)


def _cost(prompt: TokenSource) -> int:
    return len(prompt) + ENTRY_TOKENS
