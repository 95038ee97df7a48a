"""Where each layer's state lies inside a page.

A page is one row of `uint8[num_pages, page_size_bytes]`. All groups share that page size, and a
page belongs to one group at a time, so groups are overlaid from offset 0:

    page of group 0   | layer 0 | layer 1 | layer 2 | pad |
    page of group 1   | layer 3           | layer 4 | pad |

This module only describes; `kvcache.layout_solver` decides and `execution.kv_store.pages` makes
the views.
"""

from dataclasses import dataclass

from okibi.core.ids import GroupId
from okibi.core.kv_spec import KVCacheSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSlice:
    """One layer's part of a page: `num_bytes` from `offset_bytes`."""

    spec: KVCacheSpec
    offset_bytes: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLayout:
    """The layers that share one block table."""

    group_id: GroupId
    block_tokens: int
    slices: tuple[LayerSlice, ...]

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

        One page is set aside for the private copy of a shared partial page.
        """
        pages_per_token = sum(1 / group.block_tokens for group in self.groups)
        usable = self.num_pages - len(self.groups)
        return max(0, int(usable / pages_per_token + 1e-9))
