"""Which blocks of one group are cached, as a radix tree over chain digests.

Owns the cached pages of one group and who uses them. A node (`Segment`) is a run of consecutive
blocks of one chain; an edge goes where chains part. Digests are chained, so two chains agree up
to unit k exactly if their k-th digests agree, and a run is compared by bisection:

    root -- [b0 b1 b2 b3] -+- [b4 b5 b6']            b6' is partial: fewer units than a block
                           +- [b4" b5"]  <- tip of a request (uses = 1)

* A request holds its *tip*: the segment whose last block is the last cached block it uses.
  Everything above a held segment is in use too, so a hit costs O(segments).
* A segment is evicted from its end, and only if nothing below it is resident: an ancestor always
  outlives its descendants.
* Only whole blocks lie above another segment; a partial block is always at a leaf's end.
* Counts called `num_..._pages` are pages, all others blocks or units.

Cached pages go back to the pool from here. Never looks at tokens, never takes pages.
"""

import heapq
from array import array
from collections.abc import Iterator

from okibi.core.chain_hash import DIGEST_BYTES
from okibi.kvcache.children import Children, Digests
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.retention import EvictionPolicy
from okibi.kvcache.segment import IndexMatch, Segment

_MIN_COMPACT = 1024


class PrefixIndex:
    """Cached blocks of one group, addressed by content."""

    def __init__(
        self,
        pool: PagePool,
        *,
        units_per_block: int,
        pages_per_block: int = 1,
        policy: EvictionPolicy,
    ) -> None:
        self._pool = pool
        self._units_per_block = units_per_block
        self._pages_per_block = pages_per_block
        self._policy = policy
        self._root = self._make_segment(None, array("i"), bytearray())
        self._num_cached = 0
        self._num_in_use = 0
        self._candidates: list[tuple[float, int, Segment]] = []
        self._compact_above = _MIN_COMPACT
        self._tickets = 0

    @property
    def root(self) -> Segment:
        return self._root

    @property
    def num_cached_pages(self) -> int:
        return self._num_cached

    @property
    def num_evictable_pages(self) -> int:
        return self._num_cached - self._num_in_use

    # -- look-up ---------------------------------------------------------------------------

    def match(self, digests: Digests, max_units: int) -> IndexMatch:
        """The longest cached prefix of at most `max_units` units. Changes nothing."""
        limit = min(max_units, len(digests) // DIGEST_BYTES)
        segment, done = self._root, 0
        while True:
            child, units = self._best_child(segment, digests, done, limit)
            if child is None:
                return IndexMatch(segment, segment.num_blocks, done)
            if units == child.num_units and units % self._units_per_block == 0:
                segment, done = child, done + units
                continue
            return self._end_inside(segment, child, done, units)

    def _best_child(
        self, segment: Segment, digests: Digests, done: int, limit: int
    ) -> tuple[Segment | None, int]:
        """The child that agrees with the chain for most units, and for how many."""
        child = segment.children.longest(digests, done, limit)
        if child is None:
            return None, 0
        return child, _common_units(child.digests, digests, done, limit)

    def _end_inside(self, parent: Segment, child: Segment, done: int, units: int) -> IndexMatch:
        blocks, extra = divmod(units, self._units_per_block)
        segment, num_blocks = (child, blocks) if blocks else (parent, parent.num_blocks)
        if not extra:
            return IndexMatch(segment, num_blocks, done + units)
        return IndexMatch(segment, num_blocks, done + units, child)

    def num_idle_pages(self, match: IndexMatch) -> int:
        """Pages of a match that are evictable now and would not be once it is held."""
        segment = match.segment
        num_blocks = 0 if match.partial_in is None or match.partial_in.uses else 1
        if not segment.uses:
            num_blocks += match.num_blocks
        node = segment.parent
        while node is not None and not node.uses:
            num_blocks += node.num_blocks
            node = node.parent
        return num_blocks * self._pages_per_block

    # -- use -------------------------------------------------------------------------------

    def hold(self, segment: Segment, num_blocks: int, now: float) -> Segment:
        """Keep the chain up to block `num_blocks` of `segment` resident; returns the tip."""
        tip = segment if num_blocks == segment.num_blocks else self._split(segment, num_blocks)
        tip.last_used_s = max(tip.last_used_s, now)
        self._use(tip)
        return tip

    def release(self, tip: Segment, now: float) -> None:
        """Give up a hold. What nobody else holds becomes evictable."""
        tip.last_used_s = max(tip.last_used_s, now)
        self._unuse(tip)

    def _use(self, segment: Segment) -> None:
        node: Segment | None = segment
        while node is not None:
            node.uses += 1
            if node.uses > 1:
                return
            self._num_in_use += node.num_pages
            node = node.parent

    def _unuse(self, segment: Segment) -> None:
        node: Segment | None = segment
        while node is not None:
            node.uses -= 1
            if node.uses > 0:
                return
            self._num_in_use -= node.num_pages
            self._offer(node)
            node = node.parent

    def _split(self, segment: Segment, num_blocks: int) -> Segment:
        """Cut a segment; the lower part keeps its identity, the new upper part is returned."""
        cut = num_blocks * self._units_per_block * DIGEST_BYTES
        parent = segment.parent
        assert parent is not None
        assert 0 < num_blocks < segment.num_blocks
        pages = segment.block_pages(0, num_blocks)
        upper = self._make_segment(parent, pages, segment.digests[:cut])
        upper.last_used_s = segment.last_used_s
        upper.uses = 1 if segment.uses else 0
        parent.children.remove(segment)
        parent.children.add(upper, upper.digests)
        segment.pages = segment.pages[len(pages) :]
        segment.digests = segment.digests[cut:]
        segment.parent = upper
        upper.children.add(segment, segment.digests)
        return upper

    # -- growth ----------------------------------------------------------------------------

    def insert(
        self, tip: Segment, digests: Digests, pages: "array[int]"
    ) -> "tuple[Segment, array[int]]":
        """Append whole blocks below a held tip and move the hold to the last of them.

        Args:
            tip: A segment held by the caller.
            digests: Unit digests of the blocks.
            pages: Their pages, block by block. The index owns those it does not return.

        Returns:
            The new tip, and the pages of blocks that were cached already; the caller keeps those.
        """
        duplicates = array("i")
        done, total = 0, len(digests) // DIGEST_BYTES
        while done < total:
            child, units = self._best_child(tip, digests, done, total)
            num_blocks = units // self._units_per_block
            if child is None or not num_blocks:
                break
            first = len(duplicates)
            duplicates.extend(pages[first : first + num_blocks * self._pages_per_block])
            tip = self._descend(tip, child, num_blocks)
            done += num_blocks * self._units_per_block
        if done < total:
            tip = self._append(tip, digests[done * DIGEST_BYTES :], pages[len(duplicates) :])
        return tip, duplicates

    def insert_partial(
        self, tip: Segment, digests: Digests, pages: "array[int]", now: float
    ) -> bool:
        """Cache the units of an incomplete last block below a held tip.

        Returns whether the index took its pages; it does not if those units are cached already.
        """
        num_units = len(digests) // DIGEST_BYTES
        _, known = self._best_child(tip, digests, 0, num_units)
        if known == num_units:
            return False
        self._drop_superseded(tip, digests)
        leaf = self._attach(tip, digests, pages)
        leaf.last_used_s = now
        self._offer(leaf)
        return True

    def _descend(self, tip: Segment, child: Segment, num_blocks: int) -> Segment:
        lower = child if num_blocks == child.num_blocks else self._split(child, num_blocks)
        self._use(lower)
        self._unuse(tip)
        return lower

    def _append(self, tip: Segment, digests: Digests, pages: "array[int]") -> Segment:
        self._drop_superseded(tip, digests)
        if tip is self._root or tip.children or tip.uses > 1:
            below = self._attach(tip, digests, pages)
            return self._descend(tip, below, below.num_blocks)
        tip.pages.extend(pages)
        tip.digests += digests
        self._num_cached += len(pages)
        self._num_in_use += len(pages)
        return tip

    def _attach(self, parent: Segment, digests: Digests, pages: "array[int]") -> Segment:
        segment = self._make_segment(parent, pages, bytearray(digests))
        parent.children.add(segment, segment.digests)
        self._num_cached += len(pages)
        return segment

    def _drop_superseded(self, tip: Segment, digests: Digests) -> None:
        """Free partial blocks that nobody uses and that the new block contains."""
        block_units = min(self._units_per_block, len(digests) // DIGEST_BYTES)
        for num_units in range(1, block_units):
            leaf = tip.children.partial(digests, num_units)
            if leaf is not None and not leaf.uses:
                self._drop_tail(leaf, 1)

    def _make_segment(
        self, parent: Segment | None, pages: "array[int]", digests: bytearray
    ) -> Segment:
        children: Children[Segment] = Children(self._units_per_block)
        return Segment(parent, pages, digests, children, self._pages_per_block)

    # -- eviction --------------------------------------------------------------------------

    def next_eviction_key(self) -> float | None:
        """The policy's key of what `evict` would free next; None if nothing can be freed."""
        while self._candidates:
            key, ticket, segment = self._candidates[0]
            if self._is_current(segment, ticket):
                return key
            heapq.heappop(self._candidates)
        return None

    def evict(self, count: int) -> int:
        """Give blocks of the least valuable leaf back to the pool until it has `count` pages more.

        Returns how many pages it gave back: fewer if the leaf has no more, or those that are left
        of the last block beyond `count`.
        """
        if self.next_eviction_key() is None:
            return 0
        _, _, segment = heapq.heappop(self._candidates)
        wanted = -(-count // self._pages_per_block)
        num_blocks = min(wanted, segment.num_blocks)
        self._drop_tail(segment, num_blocks)
        return num_blocks * self._pages_per_block

    def _is_current(self, segment: Segment, ticket: int) -> bool:
        return segment.ticket == ticket and not segment.uses and not segment.children

    def _offer(self, segment: Segment) -> None:
        """Make a segment a candidate for eviction, if it is an unused leaf."""
        if segment.uses or segment.children or segment is self._root:
            return
        self._tickets += 1
        segment.ticket = self._tickets
        heapq.heappush(self._candidates, (self._policy.key(segment), self._tickets, segment))
        if len(self._candidates) > self._compact_above:
            self._compact()

    def _compact(self) -> None:
        self._candidates = [
            entry for entry in self._candidates if self._is_current(entry[2], entry[1])
        ]
        heapq.heapify(self._candidates)
        self._compact_above = 2 * len(self._candidates) + _MIN_COMPACT

    def _drop_tail(self, segment: Segment, num_blocks: int) -> None:
        keep = segment.num_blocks - num_blocks
        dropped = segment.block_pages(keep, segment.num_blocks)
        self._pool.give_back(dropped)
        self._num_cached -= len(dropped)
        if keep:
            del segment.pages[-len(dropped) :]
            del segment.digests[keep * self._units_per_block * DIGEST_BYTES :]
            self._offer(segment)
            return
        self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        parent = segment.parent
        assert parent is not None
        parent.children.remove(segment)
        segment.parent = None
        segment.ticket = 0
        parent.last_used_s = max(parent.last_used_s, segment.last_used_s)
        self._offer(parent)

    # -- integrity -------------------------------------------------------------------------

    def cached_pages(self) -> Iterator[int]:
        """Every page the index owns."""
        stack = [self._root]
        while stack:
            segment = stack.pop()
            yield from segment.pages
            stack.extend(segment.children)


def _common_units(cached: bytearray, chain: Digests, offset: int, limit: int) -> int:
    """Units on which a segment and the chain from unit `offset` agree, by bisection."""
    low, high = 1, min(len(cached) // DIGEST_BYTES, limit - offset)
    while low < high:
        middle = (low + high + 1) // 2
        at = (middle - 1) * DIGEST_BYTES
        start = (offset + middle - 1) * DIGEST_BYTES
        if cached[at : at + DIGEST_BYTES] == chain[start : start + DIGEST_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
