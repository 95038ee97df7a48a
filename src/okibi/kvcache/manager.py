"""The data plane's front: one pool, every group, and what each request owns in them.

Owns the order in which a request's KV comes to be: `match` (what is warm?), `begin` (hold it),
`grow` (pages for the next tokens), `publish` (whole blocks become cached), `end` (everything is
let go, the last block's units stay cached). A hit is the longest length valid for every group.
It never decides who runs and never touches bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import PageCopy
from okibi.core.token_source import TokenSequence
from okibi.kvcache.block_table import NewPages
from okibi.kvcache.groups import make_group
from okibi.kvcache.groups.group import AnyGroup, GroupMatch
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.retention import EVICTION_POLICIES


@dataclass(frozen=True, slots=True)
class Match:
    """A prefix hit: `num_tokens` tokens are cached in every group."""

    num_tokens: int
    groups: tuple[GroupMatch, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a request owns, group by group, and the copies its first step must run.

    Each table is its group's own; nobody else looks inside.
    """

    tables: tuple[Any, ...]
    copies: tuple[PageCopy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """Pages by what they are used for; the three add up to `num_pages`."""

    num_pages: int
    num_free: int
    num_evictable: int

    @property
    def num_in_use(self) -> int:
        return self.num_pages - self.num_free - self.num_evictable


class KVCacheManager:
    """Page ownership for all requests of one replica."""

    def __init__(self, layout: KVCacheLayout, *, eviction_policy: str = "lru") -> None:
        self._unit = layout.prefix_match_unit
        self._pool = PagePool(layout.num_pages)
        policy = EVICTION_POLICIES[eviction_policy]()
        self._groups = tuple(
            make_group(group, self._pool, match_unit=self._unit, policy=policy)
            for group in layout.groups
        )

    @property
    def num_available_pages(self) -> int:
        """Pages that can be taken now: free ones and cached ones nobody uses."""
        evictable = sum(group.index.num_evictable_pages for group in self._groups)
        return self._pool.num_free + evictable

    def stats(self) -> PoolStats:
        num_free = self._pool.num_free
        return PoolStats(
            num_pages=self._pool.num_pages,
            num_free=num_free,
            num_evictable=self.num_available_pages - num_free,
        )

    def match(self, sequence: TokenSequence) -> Match:
        """The longest prefix of `sequence`, short of its last token, that every group holds."""
        digests = sequence.digests()
        length = (len(sequence) - 1) // self._unit
        while True:
            groups = tuple(group.match(digests, length) for group in self._groups)
            shortest = min(found.num_units for found in groups)
            if all(found.num_units == shortest for found in groups):
                return Match(shortest * self._unit, groups)
            length = shortest

    def num_pages_taken(self, match: Match, num_tokens: int) -> int:
        """By how much `num_available_pages` falls if a request with this match grows so long."""
        return sum(
            group.num_pages_taken(found, num_tokens)
            for group, found in zip(self._groups, match.groups, strict=True)
        )

    def begin(self, match: Match, now: float) -> Allocation:
        """Hold a match made just now, for which `num_pages_taken` pages are available."""
        tables = tuple(
            group.begin(found, now) for group, found in zip(self._groups, match.groups, strict=True)
        )
        held = Allocation(tables, ())
        self._evict(self.num_missing_pages(held, match.num_tokens) - self._pool.num_free)
        copies = (group.copy_partial(table) for group, table in self._each(held))
        return Allocation(tables, tuple(chain.from_iterable(copies)))

    def num_missing_pages(self, allocation: Allocation, num_tokens: int) -> int:
        """Pages to take before `num_tokens` tokens fit."""
        return sum(
            group.num_missing_pages(table, num_tokens) for group, table in self._each(allocation)
        )

    def grow(self, allocation: Allocation, num_tokens: int) -> tuple[NewPages, ...] | None:
        """Extend the block tables to `num_tokens` tokens; None (and no change) without room."""
        missing = self.num_missing_pages(allocation, num_tokens)
        if missing > self.num_available_pages:
            return None
        self._evict(missing - self._pool.num_free)
        added = (group.grow(table, num_tokens) for group, table in self._each(allocation))
        return tuple(new for new in added if new is not None)

    def block_tables(self, allocation: Allocation) -> tuple[NewPages, ...]:
        """All pages so far, for an executor that has just met the request."""
        tables = (group.block_table(table) for group, table in self._each(allocation))
        return tuple(pages for pages in tables if pages is not None)

    def copies_done(self, allocation: Allocation, now: float) -> None:
        """The step that ran the allocation's copies has ended."""
        for group, table in self._each(allocation):
            group.copy_done(table, now)

    def publish(self, allocation: Allocation, sequence: TokenSequence, num_tokens: int) -> None:
        """Cache every block filled by the first `num_tokens` tokens, which are computed."""
        digests = sequence.digests()
        for group, table in self._each(allocation):
            group.publish(table, digests, num_tokens)

    def num_cacheable(self, num_tokens: int) -> int:
        """How many leading tokens are cached once `publish` was told of `num_tokens`."""
        return min(group.num_cacheable(num_tokens) for group in self._groups)

    def end(
        self, allocation: Allocation, sequence: TokenSequence, num_tokens: int, now: float
    ) -> None:
        """Let go of an allocation whose first `num_tokens` tokens are computed."""
        digests = sequence.digests()
        for group, table in self._each(allocation):
            group.end(table, digests, num_tokens, now)

    def reset(self) -> None:
        """Forget every cached block that nobody uses."""
        self._evict(sum(group.index.num_evictable_pages for group in self._groups))

    def check(self, allocations: Sequence[Allocation]) -> None:
        """Verify that every page has exactly one owner.

        Raises:
            AssertionError: a page is owned twice or by nobody.
        """
        owned: list[int] = []
        for group in self._groups:
            owned.extend(group.index.cached_pages())
        for allocation in allocations:
            for group, table in self._each(allocation):
                owned.extend(group.private_pages(table))
        assert len(owned) == len(set(owned)), "a page has two owners"
        assert len(owned) + self._pool.num_free == self._pool.num_pages, "a page was lost"
        assert not any(self._pool.is_free(page) for page in owned), "an owned page is free"

    def _each(self, allocation: Allocation) -> Iterable[tuple[AnyGroup, Any]]:
        return zip(self._groups, allocation.tables, strict=True)

    def _evict(self, num_pages: int) -> None:
        while num_pages > 0:
            keys = [group.index.next_eviction_key() for group in self._groups]
            ranked = [(key, i) for i, key in enumerate(keys) if key is not None]
            if not ranked:
                return
            num_pages -= self._groups[min(ranked)[1]].index.evict(num_pages)
