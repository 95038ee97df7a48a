"""The segments below one segment of the prefix index, found by the units of their first block.

Owns three maps that say the same: members, members by unit digest, and those that are a partial
block by their last digest. Digests are chained, so where chains share the first k units of a
block, the k-th digest finds one that does, however many siblings part from there.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from okibi.core.chain_hash import DIGEST_BYTES

T = TypeVar("T")
Digests = bytes | bytearray


class Children(Generic[T]):
    """Siblings. Order never matters to a caller; it is that of insertion."""

    __slots__ = ("_by_unit", "_members", "_partials", "_units_per_block")

    def __init__(self, units_per_block: int) -> None:
        self._units_per_block = units_per_block
        self._members: dict[T, tuple[bytes, ...]] = {}
        self._by_unit: dict[bytes, dict[T, None]] = {}
        self._partials: dict[bytes, T] = {}

    def __bool__(self) -> bool:
        return bool(self._members)

    def __iter__(self) -> Iterator[T]:
        return iter(self._members)

    def add(self, child: T, digests: Digests) -> None:
        """Add a child whose digests begin with `digests`."""
        num_units = min(self._units_per_block, len(digests) // DIGEST_BYTES)
        starts = tuple(_unit(digests, index) for index in range(num_units))
        self._members[child] = starts
        for digest in starts:
            self._by_unit.setdefault(digest, {})[child] = None
        if num_units < self._units_per_block:
            self._partials[starts[-1]] = child

    def remove(self, child: T) -> None:
        starts = self._members.pop(child)
        if len(starts) < self._units_per_block:
            del self._partials[starts[-1]]
        for digest in starts:
            siblings = self._by_unit[digest]
            del siblings[child]
            if not siblings:
                del self._by_unit[digest]

    def longest(self, digests: Digests, done: int, limit: int) -> T | None:
        """A child that shares most units of the chain from unit `done`; none beyond `limit`."""
        best = None
        for index in range(done, min(done + self._units_per_block, limit)):
            siblings = self._by_unit.get(_unit(digests, index))
            if siblings is None:
                break
            best = next(iter(siblings))
        return best

    def partial(self, digests: Digests, num_units: int) -> T | None:
        """The child that is exactly the partial block of the first `num_units` units."""
        return self._partials.get(_unit(digests, num_units - 1))


def _unit(digests: Digests, index: int) -> bytes:
    return bytes(digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES])
