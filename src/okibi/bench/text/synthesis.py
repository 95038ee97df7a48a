"""Messages for a recorded prompt: same block id in a session, same text.

Text depends on (seed, scope, id): the scope is the session, or the shared system scope for the
blocks of a shared prefix. The cache-bust marker goes before the first user message, so a play
shares with other plays at most the system message. Tokens without an id get text of their own
per turn, which nothing else shares.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from okibi.bench.text.vocabulary import Vocabulary
from okibi.bench.workload.trace import BLOCK_TOKENS
from okibi.bench.workload.tree import SessionTree, TurnNode

Message = dict[str, str]


class TextSynthesizer:
    """Writes the words of blocks and tails. Pure: equal arguments, equal text, in any process."""

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self._vocabulary = vocabulary
        self._seed = seed

    def words(self, key: str, num_tokens: int) -> str:
        """Text of `num_tokens` tokens (exactly or on average, as the vocabulary allows)."""
        rng = random.Random(f"{self._seed}:{key}")
        num_words = max(1, round(num_tokens / self._vocabulary.tokens_per_word))
        return " ".join(rng.choices(self._vocabulary.words, k=num_words))


class SessionText:
    """Builds the messages of one play of a session; block texts are kept while it lives."""

    def __init__(self, tree: SessionTree, synthesizer: TextSynthesizer, marker: str) -> None:
        """`marker` is put in front of each conversation's first user message; "" for none."""
        self._tree = tree
        self._synthesizer = synthesizer
        self._marker = marker
        self._blocks: dict[int, str] = {}

    def messages(self, node: TurnNode) -> list[Message]:
        """Chat messages of `node`'s whole prompt, oldest first."""
        messages: list[Message] = []
        start = 0
        for segment in node.layout.segments:
            end = start + segment.num_blocks
            pieces = [self._block(block) for block in node.call.hash_ids[start:end]]
            messages.append({"role": segment.role, "content": " ".join(pieces)})
            start = end
        self._add_tail(messages[-1], node)
        return self._mark(messages)

    def _add_tail(self, message: Message, node: TurnNode) -> None:
        num_tokens = node.layout.num_tail_tokens
        if num_tokens:
            key = f"{self._tree.trace_id}:{node.conversation}:tail:{node.turn}"
            tail = self._synthesizer.words(key, num_tokens)
            message["content"] = " ".join(_present([message["content"], tail]))

    def _mark(self, messages: list[Message]) -> list[Message]:
        for message in messages:
            if message["role"] == "user":
                message["content"] = self._marker + message["content"]
                break
        return messages

    def _block(self, block: int) -> str:
        text = self._blocks.get(block)
        if text is None:
            key = f"{self._tree.text_scope(block)}:{block}"
            text = self._synthesizer.words(key, BLOCK_TOKENS)
            self._blocks[block] = text
        return text


def _present(parts: Iterable[str]) -> list[str]:
    return [part for part in parts if part]
