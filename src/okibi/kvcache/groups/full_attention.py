"""Full attention: every token's state stays needed, and a request may resume anywhere.

Owns one group's cached blocks and the rules for growing a request's block table in it.
"""

from array import array

from okibi.core.chain_hash import DIGEST_BYTES
from okibi.core.ids import GroupId, PageId
from okibi.core.kv_layout import GroupLayout
from okibi.core.plan import PageCopy
from okibi.kvcache.block_table import GroupTable, NewPages
from okibi.kvcache.children import Digests
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.prefix_index import PrefixIndex
from okibi.kvcache.retention import EvictionPolicy
from okibi.kvcache.segment import IndexMatch


class FullAttentionGroup:
    """Cached and private blocks of the full-attention layers."""

    def __init__(
        self, layout: GroupLayout, pool: PagePool, *, match_unit: int, policy: EvictionPolicy
    ) -> None:
        self._layout = layout
        self._units_per_block = layout.block_tokens // match_unit
        self._pages_per_block = layout.pages_per_block
        self._match_unit = match_unit
        self._pool = pool
        self.index = PrefixIndex(
            pool,
            units_per_block=self._units_per_block,
            pages_per_block=self._pages_per_block,
            policy=policy,
        )

    @property
    def group_id(self) -> GroupId:
        return self._layout.group_id

    def match(self, digests: Digests, max_units: int) -> IndexMatch:
        return self.index.match(digests, max_units)

    def num_pages_taken(self, match: IndexMatch, num_tokens: int) -> int:
        num_whole = match.num_units // self._units_per_block * self._pages_per_block
        num_missing = max(0, self._layout.num_pages(num_tokens) - num_whole)
        return num_missing + self.index.num_idle_pages(match)

    def begin(self, match: IndexMatch, now: float) -> GroupTable:
        """Hold what matched. A partial block becomes a segment of its own, held to be copied."""
        pages = _pages_above(match)
        segment, source = match.segment, None
        if match.partial_in is not None:
            source = self.index.hold(match.partial_in, match.partial_block + 1, now)
            segment = source if match.partial_in is segment else segment
        tip = self.index.hold(segment, match.num_blocks, now)
        num_indexed = len(pages) // self._pages_per_block
        return GroupTable(tip=tip, pages=pages, num_indexed=num_indexed, copy_source=source)

    def copy_partial(self, table: GroupTable) -> tuple[PageCopy, ...]:
        """Give the request its own copy of a block that matched in part."""
        if table.copy_source is None:
            return ()
        sources = table.copy_source.pages
        targets = self._pool.take(len(sources))
        table.pages.extend(targets)
        return tuple(
            PageCopy(source=PageId(source), target=PageId(target))
            for source, target in zip(sources, targets, strict=True)
        )

    def copy_done(self, table: GroupTable, now: float) -> None:
        if table.copy_source is not None:
            self.index.release(table.copy_source, now)
            table.copy_source = None

    def num_missing_pages(self, table: GroupTable, num_tokens: int) -> int:
        return max(0, self._layout.num_pages(num_tokens) - len(table.pages))

    def grow(self, table: GroupTable, num_tokens: int) -> NewPages | None:
        num_missing = self.num_missing_pages(table, num_tokens)
        if not num_missing:
            return None
        start_block = len(table.pages) // self._pages_per_block
        pages = self._pool.take(num_missing)
        table.pages.extend(pages)
        return NewPages(self.group_id, start_block, pages.tobytes())

    def block_table(self, table: GroupTable) -> NewPages | None:
        return NewPages(self.group_id, 0, table.pages.tobytes()) if table.pages else None

    def publish(self, table: GroupTable, digests: Digests, num_tokens: int) -> None:
        """Cache the blocks that the first `num_tokens` tokens fill."""
        complete = self.num_cacheable(num_tokens) // self._layout.block_tokens
        if complete <= table.num_indexed:
            return
        chain = _units(
            digests, table.num_indexed * self._units_per_block, complete * self._units_per_block
        )
        pages = self._block_pages(table, table.num_indexed, complete)
        table.tip, duplicates = self.index.insert(table.tip, chain, pages)
        table.duplicates.extend(duplicates)
        table.num_indexed = complete

    def num_cacheable(self, num_tokens: int) -> int:
        return num_tokens // self._layout.block_tokens * self._layout.block_tokens

    def end(self, table: GroupTable, digests: Digests, num_tokens: int, now: float) -> None:
        self.copy_done(table, now)
        self.publish(table, digests, num_tokens)
        self._publish_partial(table, digests, num_tokens, now)
        self._pool.give_back(self.private_pages(table))
        self.index.release(table.tip, now)

    def private_pages(self, table: GroupTable) -> "array[int]":
        return table.pages[table.num_indexed * self._pages_per_block :] + table.duplicates

    def _publish_partial(
        self, table: GroupTable, digests: Digests, num_tokens: int, now: float
    ) -> None:
        first, stop = table.num_indexed * self._units_per_block, num_tokens // self._match_unit
        if stop <= first:
            return
        pages = self._block_pages(table, table.num_indexed, table.num_indexed + 1)
        if self.index.insert_partial(table.tip, _units(digests, first, stop), pages, now):
            table.num_indexed += 1

    def _block_pages(self, table: GroupTable, start: int, stop: int) -> "array[int]":
        return table.pages[start * self._pages_per_block : stop * self._pages_per_block]


def _units(digests: Digests, start: int, stop: int) -> Digests:
    return digests[start * DIGEST_BYTES : stop * DIGEST_BYTES]


def _pages_above(match: IndexMatch) -> "array[int]":
    """Pages of the whole blocks that matched, from the first of the chain."""
    parts: list[array[int]] = [match.segment.block_pages(0, match.num_blocks)]
    node = match.segment.parent
    while node is not None:
        parts.append(node.pages)
        node = node.parent
    pages = array("i")
    for part in reversed(parts):
        pages.extend(part)
    return pages
