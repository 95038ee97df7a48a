"""What the manager asks of a group: the layers whose state stays needed by the same rule.

A group owns its cached blocks and what each request holds of them; pages come from the pool that
all groups share. The manager calls, for each request:

    match -> begin -> copy_partial -> (grow | publish)* -> end
             `--- all groups hold their match before any takes a page

Matches and tables are the group's own; the manager hands them back unread.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from okibi.core.ids import GroupId
from okibi.core.kv_layout import GroupLayout
from okibi.core.plan import PageCopy
from okibi.kvcache.block_table import NewPages
from okibi.kvcache.children import Digests
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.retention import EvictionPolicy


class GroupMatch(Protocol):
    """A prefix that one group could resume from."""

    @property
    def num_units(self) -> int:
        """Its length, in prefix match units."""
        ...


class CachedBlocks(Protocol):
    """The blocks a group keeps for requests to come."""

    @property
    def num_evictable_pages(self) -> int: ...

    def next_eviction_key(self) -> float | None:
        """The policy's key of what `evict` would free next; None if nothing can be freed."""
        ...

    def evict(self, count: int) -> int:
        """Free about `count` pages of the least valuable run; returns how many, 0 for none."""
        ...

    def cached_pages(self) -> Iterator[int]:
        """Every page these blocks lie in."""
        ...


M = TypeVar("M", bound=GroupMatch)
T = TypeVar("T")


class Group(Protocol[M, T]):
    """One liveness rule. `M` is what it finds for a request, `T` what a request owns in it."""

    @property
    def group_id(self) -> GroupId: ...

    @property
    def index(self) -> CachedBlocks: ...

    def match(self, digests: Digests, max_units: int) -> M:
        """The longest prefix of at most `max_units` units to resume from. Changes nothing."""
        ...

    def num_pages_taken(self, match: M, num_tokens: int) -> int:
        """Available pages that a request of `num_tokens` tokens with this match would use up."""
        ...

    def begin(self, match: M, now: float) -> T:
        """Hold what matched, and take no page yet."""
        ...

    def copy_partial(self, table: T) -> Sequence[PageCopy]:
        """Take the pages that are missing up to the end of the match; what to copy into them."""
        ...

    def copy_done(self, table: T, now: float) -> None:
        """The copies were observed to have run: their sources may be evicted again."""
        ...

    def num_missing_pages(self, table: T, num_tokens: int) -> int:
        """Pages to take so that `num_tokens` tokens fit."""
        ...

    def grow(self, table: T, num_tokens: int) -> NewPages | None:
        """Take them; the caller has made room. None if no page is missing."""
        ...

    def block_table(self, table: T) -> NewPages | None:
        """All pages so far; None if there are none."""
        ...

    def publish(self, table: T, digests: Digests, num_tokens: int) -> None:
        """Cache what the first `num_tokens` tokens, which are computed, complete."""
        ...

    def num_cacheable(self, num_tokens: int) -> int:
        """How many leading tokens are cached once `publish` was told of `num_tokens`."""
        ...

    def end(self, table: T, digests: Digests, num_tokens: int, now: float) -> None:
        """Cache what is left of the first `num_tokens` tokens and let go of everything."""
        ...

    def private_pages(self, table: T) -> Sequence[int]:
        """Pages of the request that no index owns."""
        ...


AnyGroup = Group[Any, Any]
"""A group to a caller that only hands its matches and tables back."""


class GroupFactory(Protocol):
    """Makes the group of a layout; a group's class is one."""

    def __call__(
        self, layout: GroupLayout, pool: PagePool, *, match_unit: int, policy: EvictionPolicy
    ) -> AnyGroup: ...
