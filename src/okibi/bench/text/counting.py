"""Token counting, by the server under test or by a tokenizer file.

A counter answers how many tokens a piece of text has, without special tokens. Must never be used
while a measurement runs; counting is preparation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from okibi.bench.http import ServerApi
from okibi.core.errors import OkibiError


class TokenCounter(Protocol):
    """Counts tokens of plain text."""

    async def count(self, text: str) -> int:
        """Tokens of `text`, no special tokens added."""
        ...


class FileTokenCounter:
    """Counts with a `tokenizer.json` of the served model."""

    def __init__(self, path: Path) -> None:
        """Load `path`, a file or the folder that holds it. Raises OkibiError if unreadable."""
        from tokenizers import Tokenizer

        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception
            raise OkibiError(f"--tokenizer {path} is not a tokenizer.json: {error}") from None

    async def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


class _Tokenized(msgspec.Struct):
    tokens: list[Any]


class ServerTokenCounter:
    """Counts with the server's own `/tokenize` (the vLLM shape; llama.cpp's is understood too)."""

    def __init__(self, api: ServerApi, model: str) -> None:
        self._api = api
        self._model = model

    async def count(self, text: str) -> int:
        """Raises OkibiError when the server stops answering as it did at the start."""
        count = await self.try_count(text)
        if count is None:
            raise OkibiError("the server's /tokenize stopped answering; retry, or pass --tokenizer")
        return count

    async def try_count(self, text: str) -> int | None:
        """Tokens of `text`, or None where the server offers no usable `/tokenize`."""
        body = {
            "model": self._model,
            "prompt": text,
            "content": text,
            "add_special_tokens": False,
        }
        answer = await self._api.try_post_json("/tokenize", body)
        try:
            return len(msgspec.json.decode(answer or b"", type=_Tokenized).tokens)
        except msgspec.DecodeError:
            return None
