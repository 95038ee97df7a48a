"""The key-value section of a GGUF file.

Owns the format's header alone (GGUF versions 2 and 3, little-endian; the layout is specified in
ggml's docs/gguf.md). The `gguf` package reads it too, but makes array views for each of a
vocabulary's 50,000 to 250,000 strings, which takes seconds where this takes a fraction of one.
"""

import mmap
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from okibi.core.errors import ModelError

_MAGIC = b"GGUF"
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9


def read_gguf_metadata(path: Path) -> Mapping[str, Any]:
    """All key-value pairs, as Python values; tensors are not touched.

    Raises:
        ModelError: not a GGUF file of a known version, or cut short.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).pairs()
    except (struct.error, ValueError, OSError, KeyError, RecursionError) as error:
        raise ModelError(f"{path} is not a readable GGUF file: {error}") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def pairs(self) -> dict[str, Any]:
        if self._data[:4] != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        version, _, num_pairs = self._unpack("IQQ")
        if version not in (2, 3):
            raise ValueError(f"version {version} is not known")
        return {self._string(): self._value(self._scalar("I")) for _ in range(num_pairs)}

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        item_kind, length = self._unpack("IQ")
        if item_kind in _SCALARS:
            return list(self._unpack(f"{length}{_SCALARS[item_kind]}"))
        read: Callable[[], Any] = self._string if item_kind == _STRING else self._nested(item_kind)
        return [read() for _ in range(length)]

    def _nested(self, kind: int) -> Callable[[], Any]:
        return lambda: self._value(kind)

    def _string(self) -> str:
        length = self._scalar("Q")
        text = self._data[self._at : self._at + length]
        if len(text) < length:
            raise ValueError("it is cut short")
        self._at += length
        return text.decode("utf-8", "surrogateescape")

    def _scalar(self, code: str) -> Any:
        return self._unpack(code)[0]

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        layout = "<" + codes
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values
