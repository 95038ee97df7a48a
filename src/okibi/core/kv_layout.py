"""Where each layer's state lies inside a page.

A page is one row of `uint8[num_pages, page_size_bytes]`. All groups share that page size, and a
page belongs to one group at a time, so groups are overlaid from offset 0:

    page of group 0   | layer 0 | layer 1 | layer 2 | pad |
    page of group 1   | layer 3           | layer 4 | pad |

A block of a group lies in one page, or in `pages_per_block` pages where one would be too large;
each slice then says in which of them it lies.

This module only describes; `kvcache.layout_solver` decides and `execution.kv_store.pages` makes
the views.
"""

from bisect import bisect_right
from dataclasses import dataclass

from okibi.core.ids import GroupId
from okibi.core.kv_spec import KVCacheSpec

_ENDLESS = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSlice:
    """One layer's part of a block: `num_bytes` from `offset_bytes` of page `page_index`."""

    spec: KVCacheSpec
    page_index: int = 0
    offset_bytes: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLayout:
    """The layers that share one block table, because they share a liveness rule.

    Attributes:
        pages_per_block: Pages of one block; a block table lists them one after another.
        slices: One a layer, at least one.
    """

    group_id: GroupId
    block_tokens: int
    pages_per_block: int = 1
    slices: tuple[LayerSlice, ...]

    def num_pages(self, num_tokens: int) -> int:
        """Pages that a sequence of `num_tokens` tokens keeps."""
        num_blocks = self.slices[0].spec.num_blocks(num_tokens, self.block_tokens)
        return num_blocks * self.pages_per_block

    @property
    def payload_bytes(self) -> int:
        return sum(part.num_bytes for part in self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheLayout:
    """The whole pool: one page size, every group, and the granularity of prefix matching."""

    page_size_bytes: int
    num_pages: int
    prefix_match_unit: int
    groups: tuple[GroupLayout, ...]

    def max_tokens(self) -> int:
        """Tokens of the longest single sequence that an empty pool can hold.

        One block of each group is set aside for the private copy of a shared partial block.
        """
        usable = self.num_pages - sum(group.pages_per_block for group in self.groups)
        return max(0, bisect_right(range(_ENDLESS), usable, key=self._num_pages) - 1)

    def _num_pages(self, num_tokens: int) -> int:
        return sum(group.num_pages(num_tokens) for group in self.groups)
