"""The nodes of the prefix index and what a look-up in it finds.

Owns no rule: `prefix_index` decides how segments are cut, joined and evicted. A segment is a run
of cached blocks; the pages of a block lie next to each other:

    pages      | b0.0 b0.1 | b1.0 b1.1 | b2.0 b2.1 |      pages_per_block = 2
    digests    |  u0  u1   |  u2  u3   |  u4  |           units_per_block = 2, b2 is partial
"""

from array import array
from dataclasses import dataclass

from okibi.core.chain_hash import DIGEST_BYTES
from okibi.kvcache.children import Children


class Segment:
    """A run of cached blocks. Private to the data plane; others hold it as an opaque tip."""

    __slots__ = (
        "children",
        "digests",
        "last_used_s",
        "pages",
        "pages_per_block",
        "parent",
        "ticket",
        "uses",
    )

    def __init__(
        self,
        parent: "Segment | None",
        pages: "array[int]",
        digests: bytearray,
        children: "Children[Segment]",
        pages_per_block: int,
    ) -> None:
        self.parent = parent
        self.pages = pages
        self.digests = digests
        self.children = children
        self.pages_per_block = pages_per_block
        self.uses = 0
        self.last_used_s = 0.0
        self.ticket = 0

    @property
    def num_pages(self) -> int:
        return len(self.pages)

    @property
    def num_blocks(self) -> int:
        return len(self.pages) // self.pages_per_block

    @property
    def num_units(self) -> int:
        return len(self.digests) // DIGEST_BYTES

    def block_pages(self, start: int, stop: int) -> "array[int]":
        """Pages of blocks `[start, stop)`."""
        return self.pages[start * self.pages_per_block : stop * self.pages_per_block]


@dataclass(frozen=True, slots=True)
class IndexMatch:
    """The longest cached prefix of a chain.

    Attributes:
        segment: Where the match ends; the root for no match.
        num_blocks: Whole blocks of `segment` that match.
        num_units: Units matched from the start of the chain, partial block included.
        partial_in: Segment that holds a further block of which only some units match.
    """

    segment: Segment
    num_blocks: int
    num_units: int
    partial_in: Segment | None = None

    @property
    def partial_block(self) -> int:
        """Which block of `partial_in` matches in part."""
        return self.num_blocks if self.partial_in is self.segment else 0
