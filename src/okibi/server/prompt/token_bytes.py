"""The bytes that each token stands for.

A tokenizer's decoder says how vocabulary entries spell bytes: GPT-2's byte-to-character table, or
SentencePiece's underscore for a space and `<0x0A>` for single bytes. A token that was added to a
byte-level vocabulary is found in plain text before that table applies, so it stands for its own
text (huggingface/tokenizers, issue 1392). Bytes, not text, are what can be joined token by token: a
character may span several tokens.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from okibi.core.errors import ModelError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"


class TokenBytes:
    """Bytes by token id, worked out when first asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises `ModelError` if the tokenizer's decoder is of no known kind."""
        self._tokenizer = tokenizer
        self._spell = _spelling(tokenizer)
        added = tokenizer.get_added_tokens_decoder()
        self._special = frozenset(token_id for token_id, token in added.items() if token.special)
        self._known = _added_text(tokenizer, added) if self._spell is _byte_level else {}

    def of(self, token_id: int) -> bytes:
        """The token's bytes, special tokens spelt out; empty for an id without an entry."""
        known = self._known.get(token_id)
        if known is None:
            token = self._tokenizer.id_to_token(token_id)
            known = self._known[token_id] = b"" if token is None else self._spell(token)
        return known

    def is_special(self, token_id: int) -> bool:
        """Whether the token structures a prompt and is no part of any text."""
        return token_id in self._special


def _spelling(tokenizer: Tokenizer) -> Callable[[str], bytes]:
    decoder = tokenizer.decoder
    state: dict[str, Any] = {"type": "none"}
    if decoder is not None:
        state = json.loads(decoder.__getstate__())
    steps: set[str] = {step["type"] for step in state.get("decoders", [state])}
    if "ByteLevel" in steps:
        return _byte_level
    if steps & {"ByteFallback", "Metaspace"}:
        return _sentence_piece
    raise ModelError(f"okibi does not know the tokenizer's decoder ({', '.join(sorted(steps))})")


def _added_text(tokenizer: Tokenizer, added: Mapping[int, AddedToken]) -> dict[int, bytes]:
    """UTF-8 of the added tokens, but for single letters of the model's own alphabet.

    Such a letter shares its id with a byte that any other text may need.
    """
    model = tokenizer.model
    return {
        token_id: token.content.encode()
        for token_id, token in added.items()
        if len(token.content) > 1 or model.id_to_token(token_id) is None
    }


def _gpt2_bytes() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, the rest is moved up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + offset): byte for offset, byte in enumerate(moved)})
    return alphabet


_GPT2_BYTES = _gpt2_bytes()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_GPT2_BYTES[character] for character in token])
    except KeyError:
        return token.encode()


def _sentence_piece(token: str) -> bytes:
    if byte := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(byte.group(1), 16)])
    return token.replace(_SPACE_MARK, " ").encode()
