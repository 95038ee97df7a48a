"""Sequences of tokens that are hashed in units and never held as Python integers.

A prompt is a `TokenSource`. `PackedTokens` holds real ids, four bytes each. `SegmentTokens` says
only which content stands where, so that traces and simulations handle a prompt of 142,000 tokens
as a few segments. Both yield chained unit digests; `TokenSequence` adds the tokens generated so
far. Sources are immutable and may be shared between requests.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Protocol

from okibi.core.chain_hash import DIGEST_BYTES, chain_digests

TOKEN_BYTES = 4
_COMPARE_BYTES = 1 << 16
_PIECE = struct.Struct("<cqqq")


class TokenSource(Protocol):
    """An immutable sequence of tokens."""

    def __len__(self) -> int: ...

    def ids(self, start: int, stop: int) -> bytes | None:
        """Packed int32 ids of `[start, stop)`, or None if this source has no ids."""
        ...

    def digests(self, parent: bytes, unit: int, first: int, count: int, tail: bytes) -> bytes:
        """Chained digests of units `[first, first + count)`, 16 bytes each.

        Args:
            parent: Digest of unit `first - 1`, or the root.
            unit: Tokens a unit.
            tail: Packed ids of tokens that follow this source.
        """
        ...

    def common_prefix(self, other: "TokenSource") -> int:
        """Number of leading tokens that are equal in both; 0 for another kind of source."""
        ...


@dataclass(frozen=True, slots=True)
class PackedTokens:
    """Real token ids, packed as little-endian int32."""

    packed: bytes

    @classmethod
    def of(cls, ids: Iterable[int]) -> "PackedTokens":
        return cls(array("i", ids).tobytes())

    def __len__(self) -> int:
        return len(self.packed) // TOKEN_BYTES

    def ids(self, start: int, stop: int) -> bytes:
        return self.packed[start * TOKEN_BYTES : stop * TOKEN_BYTES]

    def digests(self, parent: bytes, unit: int, first: int, count: int, tail: bytes) -> bytes:
        unit_bytes = unit * TOKEN_BYTES
        start, stop = first * unit_bytes, (first + count) * unit_bytes
        data = self.packed[start:stop]
        if len(data) < stop - start:
            tail_start = max(0, start - len(self.packed))
            data += tail[tail_start : tail_start + stop - start - len(data)]
        return chain_digests(parent, data, unit_bytes)

    def common_prefix(self, other: TokenSource) -> int:
        if not isinstance(other, PackedTokens):
            return 0
        return _common_bytes(self.packed, other.packed) // TOKEN_BYTES


class SegmentTokens:
    """Content named by segments: token `j` of segment `s` is the pair (s, j).

    Two segment sources share a prefix as far as their pairs agree. No ids exist.
    """

    __slots__ = ("_ends", "_segments")

    def __init__(self, segments: Sequence[tuple[int, int]]) -> None:
        """`segments` are (content id, number of tokens)."""
        self._segments = tuple(segments)
        self._ends = tuple(accumulate(length for _, length in self._segments))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def ids(self, start: int, stop: int) -> None:
        return None

    def digests(self, parent: bytes, unit: int, first: int, count: int, tail: bytes) -> bytes:
        out = bytearray()
        for index in range(first, first + count):
            content = self._content(index * unit, (index + 1) * unit, tail)
            parent = blake2b(parent + content, digest_size=DIGEST_BYTES).digest()
            out += parent
        return bytes(out)

    def common_prefix(self, other: TokenSource) -> int:
        if not isinstance(other, SegmentTokens):
            return 0
        position = 0
        limit = min(len(self), len(other))
        while position < limit:
            mine, theirs = self._piece_at(position), other._piece_at(position)
            if mine[:2] != theirs[:2]:
                return position
            position += min(mine[2], theirs[2])
        return min(position, limit)

    def _piece_at(self, position: int) -> tuple[int, int, int]:
        """(content id, offset in the segment, tokens left in it) at a position."""
        index = bisect_right(self._ends, position)
        content, length = self._segments[index]
        offset = position - (self._ends[index] - length)
        return content, offset, length - offset

    def _content(self, start: int, stop: int, tail: bytes) -> bytes:
        out = bytearray()
        position, end = start, min(stop, len(self))
        while position < end:
            content, offset, left = self._piece_at(position)
            taken = min(left, end - position)
            out += _PIECE.pack(b"s", content, offset, taken)
            position += taken
        if stop > position:
            first = (position - len(self)) * TOKEN_BYTES
            out += b"t" + tail[first : first + (stop - position) * TOKEN_BYTES]
        return bytes(out)


class TokenSequence:
    """A prompt and what was generated after it, with the chain digests of its complete units.

    `digests` grows as tokens arrive; nothing is ever hashed twice.
    """

    __slots__ = ("_digests", "_output", "_prompt", "_root", "_unit")

    def __init__(self, prompt: TokenSource, *, unit: int, root: bytes) -> None:
        self._prompt = prompt
        self._output = array("i")
        self._unit = unit
        self._root = root
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._prompt) + len(self._output)

    @property
    def prompt(self) -> TokenSource:
        return self._prompt

    @property
    def root(self) -> bytes:
        return self._root

    @property
    def num_output_tokens(self) -> int:
        return len(self._output)

    def append(self, token_id: int) -> None:
        self._output.append(token_id)

    def ids(self, start: int, stop: int) -> bytes | None:
        """Packed int32 ids of `[start, stop)`, or None if the prompt has none."""
        num_prompt = len(self._prompt)
        if start >= num_prompt:
            return self._output[start - num_prompt : stop - num_prompt].tobytes()
        head = self._prompt.ids(start, min(stop, num_prompt))
        if head is None or stop <= num_prompt:
            return head
        return head + self._output[: stop - num_prompt].tobytes()

    def adopt_digests(self, digests: bytes) -> None:
        """Take digests known from an earlier sequence with the same root and leading tokens."""
        if len(digests) > len(self._digests):
            self._digests = bytearray(digests)

    def digests(self) -> bytearray:
        """Chain digests of all complete units, 16 bytes each. Owned by the sequence."""
        known = len(self._digests) // DIGEST_BYTES
        complete = len(self) // self._unit
        if complete > known:
            parent = bytes(self._digests[-DIGEST_BYTES:]) or self._root
            self._digests += self._prompt.digests(
                parent, self._unit, known, complete - known, self._output.tobytes()
            )
        return self._digests


def _common_bytes(left: bytes, right: bytes) -> int:
    limit = min(len(left), len(right))
    start = 0
    while start < limit:
        stop = min(start + _COMPARE_BYTES, limit)
        if left[start:stop] != right[start:stop]:
            break
        start = stop
    low, high = start, min(start + _COMPARE_BYTES, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if left[start:middle] == right[start:middle]:
            low = middle
        else:
            high = middle - 1
    return low
