"""What one request owns in one group.

Blocks are content, pages are space: the pages of a block lie next to each other in `pages`, and
block follows block. With one page a block:

    pages        | p0 p1 p2 p3 | p4 p5 |
                   `- cached -'  `- private: written by this request alone
                   num_indexed=4

The first `num_indexed` blocks are cached by content up to the held `tip`. Where the same content
had been cached by someone else meanwhile, this request's own page is in `duplicates` and private
as well.
"""

from array import array
from dataclasses import dataclass, field

from okibi.core.ids import GroupId
from okibi.kvcache.segment import Segment


@dataclass(frozen=True, slots=True)
class NewPages:
    """Packed int32 page ids appended to one group's table, from block `start_block` on.

    All pages of the first block come first, then those of the next one.
    """

    group_id: GroupId
    start_block: int
    pages: bytes


@dataclass(slots=True)
class GroupTable:
    """Block table and holds of one request in one group.

    Attributes:
        tip: Segment held for the cached part.
        pages: Page ids of all blocks so far.
        num_indexed: Leading blocks that are in the index.
        duplicates: Pages among the indexed ones that the index did not take.
        copy_source: Segment held until its partial page has been copied.
    """

    tip: Segment
    pages: "array[int]" = field(default_factory=lambda: array("i"))
    num_indexed: int = 0
    duplicates: "array[int]" = field(default_factory=lambda: array("i"))
    copy_source: Segment | None = None
