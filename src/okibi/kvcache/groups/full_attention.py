"""Full attention: every token's state stays needed, and a request may resume anywhere.

Owns one group's cached blocks and the rules for growing a request's block table in it.
"""

from array import array

from okibi.core.chain_hash import DIGEST_BYTES
from okibi.core.ids import GroupId, PageId
from okibi.core.kv_layout import GroupLayout
from okibi.core.plan import PageCopy
from okibi.kvcache.block_table import GroupTable
from okibi.kvcache.children import Digests
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.prefix_index import IndexMatch, PrefixIndex
from okibi.kvcache.retention import EvictionPolicy


class FullAttentionGroup:
    """Cached and private blocks of the full-attention layers."""

    def __init__(
        self, layout: GroupLayout, pool: PagePool, *, match_unit: int, policy: EvictionPolicy
    ) -> None:
        self._layout = layout
        self._units_per_block = layout.block_tokens // match_unit
        self._match_unit = match_unit
        self._pool = pool
        self.index = PrefixIndex(pool, units_per_block=self._units_per_block, policy=policy)

    @property
    def group_id(self) -> GroupId:
        return self._layout.group_id

    def match(self, digests: Digests, max_units: int) -> IndexMatch:
        """The longest cached prefix this group can resume from."""
        return self.index.match(digests, max_units)

    def begin(self, match: IndexMatch, now: float) -> GroupTable:
        """Hold what matched. A partial block stays held as the source of a copy."""
        pages = self._pages_above(match)
        segment, source = match.segment, None
        if match.partial_in is not None:
            inside = match.partial_in is segment
            source = self.index.hold(match.partial_in, match.num_blocks + 1 if inside else 1, now)
            segment = source if inside else segment
        tip = self.index.hold(segment, match.num_blocks, now)
        return GroupTable(tip=tip, pages=pages, num_indexed=len(pages), copy_source=source)

    def num_pages_taken(self, match: IndexMatch, num_tokens: int) -> int:
        """Available pages that a request of `num_tokens` tokens with this match would use up."""
        whole_blocks = match.num_units // self._units_per_block
        missing = max(0, self._num_blocks(num_tokens) - whole_blocks)
        return missing + self.index.num_idle_pages(match)

    def copy_partial(self, table: GroupTable, source: PageId, target: PageId) -> PageCopy:
        """Make a matched partial block private: `source` is to be copied into `target`."""
        table.pages.append(target)
        return PageCopy(source=source, target=target)

    def copy_done(self, table: GroupTable, now: float) -> None:
        """The copy was observed to have run: its source may be evicted again."""
        if table.copy_source is not None:
            self.index.release(table.copy_source, now)
            table.copy_source = None

    def num_missing_pages(self, table: GroupTable, num_tokens: int) -> int:
        """Pages to add so that `num_tokens` tokens fit."""
        return max(0, self._num_blocks(num_tokens) - len(table.pages))

    def publish(self, table: GroupTable, digests: Digests, num_tokens: int) -> None:
        """Cache the blocks that the first `num_tokens` tokens fill."""
        complete = num_tokens // self._layout.block_tokens
        if complete <= table.num_indexed:
            return
        chain = self._digests(digests, table.num_indexed, complete)
        pages = table.pages[table.num_indexed : complete]
        table.tip, duplicates = self.index.insert(table.tip, chain, pages)
        table.duplicates.extend(duplicates)
        table.num_indexed = complete

    def end(self, table: GroupTable, digests: Digests, num_tokens: int, now: float) -> None:
        """Cache what is left of the first `num_tokens` tokens and let go of everything."""
        self.copy_done(table, now)
        self.publish(table, digests, num_tokens)
        private = table.private_pages()
        if self._publish_partial(table, digests, num_tokens, now):
            private.remove(table.pages[table.num_indexed])
        self._pool.give_back(private)
        self.index.release(table.tip, now)

    def _publish_partial(
        self, table: GroupTable, digests: Digests, num_tokens: int, now: float
    ) -> bool:
        first = table.num_indexed * self._units_per_block
        num_units = num_tokens // self._match_unit - first
        if num_units <= 0:
            return False
        chain = digests[first * DIGEST_BYTES : (first + num_units) * DIGEST_BYTES]
        page = PageId(table.pages[table.num_indexed])
        return self.index.insert_partial(table.tip, chain, page, now)

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._layout.block_tokens)

    def _digests(self, digests: Digests, first_block: int, stop_block: int) -> Digests:
        size = self._units_per_block * DIGEST_BYTES
        return digests[first_block * size : stop_block * size]

    def _pages_above(self, match: IndexMatch) -> "array[int]":
        """Pages of the matched chain, from its first block."""
        parts: list[array[int]] = [match.segment.pages[: match.num_blocks]]
        node = match.segment.parent
        while node is not None:
            parts.append(node.pages)
            node = node.parent
        pages = array("i")
        for part in reversed(parts):
            pages.extend(part)
        return pages
