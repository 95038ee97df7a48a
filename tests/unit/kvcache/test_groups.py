"""The manager over several groups: they hit together, evict each other and copy together.

Each test first asserts that what it is about was reached: groups that differ, a pool that is full.
"""

from typing import cast

import pytest

from okibi.core.chain_hash import root_digest
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.token_source import PackedTokens, TokenSequence
from okibi.kvcache.children import Digests
from okibi.kvcache.groups import GROUPS
from okibi.kvcache.groups.full_attention import FullAttentionGroup
from okibi.kvcache.layout_solver import solve_layout
from okibi.kvcache.manager import Allocation, KVCacheManager, Match
from okibi.kvcache.segment import IndexMatch
from tests.support.builders import make_grouped_layout

UNIT = 2
TWO = ((4, 1), (8, 1))
SHAPES = [TWO, ((4, 2),), ((8, 1), (4, 2)), ((4, 1), (6, 1)), ((4, 3), (4, 1), (12, 2))]
X, Y, Z = (list(range(first, first + 60)) for first in (0, 100, 200))


def make_manager(*shapes: tuple[int, int], num_pages: int = 64) -> KVCacheManager:
    return KVCacheManager(make_grouped_layout(*shapes, num_pages=num_pages, unit=UNIT))


def sequence_of(ids: list[int]) -> TokenSequence:
    return TokenSequence(PackedTokens.of(ids), unit=UNIT, root=root_digest("model", ""))


def start(manager: KVCacheManager, ids: list[int], now: float = 0.0) -> Allocation:
    allocation = manager.begin(manager.match(sequence_of(ids)), now)
    assert manager.grow(allocation, len(ids)) is not None
    manager.check([allocation])
    return allocation


def finish(manager: KVCacheManager, allocation: Allocation, ids: list[int], now: float) -> None:
    manager.end(allocation, sequence_of(ids), len(ids), now)
    manager.check([])


def run(manager: KVCacheManager, ids: list[int], now: float = 0.0) -> None:
    finish(manager, start(manager, ids, now), ids, now)


def hits(manager: KVCacheManager, ids: list[int]) -> list[int]:
    """Tokens that each group alone could resume from."""
    digests = sequence_of(ids).digests()
    limit = (len(ids) - 1) // UNIT
    return [group.match(digests, limit).num_units * UNIT for group in manager._groups]


def hit(manager: KVCacheManager, ids: list[int]) -> int:
    return manager.match(sequence_of(ids)).num_tokens


def partial_groups(match: Match) -> list[bool]:
    """Whether the match ends inside a block, group by group."""
    return [cast(IndexMatch, found).partial_in is not None for found in match.groups]


# -- look-up -------------------------------------------------------------------------------


def test_a_hit_is_as_long_as_the_shortest_of_its_groups() -> None:
    """One group lost its tail; the other is matched again, now inside a block."""
    manager = make_manager(*TWO, num_pages=10)
    run(manager, X[:24])
    run(manager, Y[:2])
    assert hits(manager, X[:25]) == [20, 24]
    match = manager.match(sequence_of(X[:25]))
    assert match.num_tokens == 20
    assert [found.num_units for found in match.groups] == [10, 10]
    assert partial_groups(match) == [False, True]


class CoarseSpec(FullAttentionSpec):
    """A kind of state that can be resumed only at multiples of a number of units."""

    @property
    def liveness(self) -> str:
        return f"coarse {self.resume_units}"

    @property
    def resume_units(self) -> int:
        return self.layer


class CoarseGroup(FullAttentionGroup):
    def __init__(self, layout, pool, **options) -> None:
        super().__init__(layout, pool, **options)
        self._resume_units = layout.slices[0].spec.resume_units
        self.num_lookups = 0

    def match(self, digests: Digests, max_units: int) -> IndexMatch:
        self.num_lookups += 1
        longest = super().match(digests, max_units).num_units
        return super().match(digests, longest // self._resume_units * self._resume_units)


def test_a_new_rule_is_a_class_and_a_line_and_hits_are_a_fixed_point(monkeypatch) -> None:
    """From 11 units: (10, 9), then (8, 9), then (8, 6), then both 6."""
    monkeypatch.setitem(GROUPS, CoarseSpec, CoarseGroup)
    specs = [
        CoarseSpec(layer=units, num_kv_heads=1, head_dim=8, dtype=KVDType.FLOAT32)
        for units in (2, 3)
    ]
    layout = solve_layout(specs, block_tokens=8, prefix_match_unit=UNIT, num_pages=20)
    manager = KVCacheManager(layout)
    run(manager, X[:24])
    assert hits(manager, X[:23]) == [20, 18]
    before = [group.num_lookups for group in cast(tuple[CoarseGroup, ...], manager._groups)]
    assert hit(manager, X[:23]) == 12
    after = [group.num_lookups for group in cast(tuple[CoarseGroup, ...], manager._groups)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [4, 4]


@pytest.mark.parametrize("shapes", SHAPES)
def test_what_is_cached_of_a_running_request_is_known_beforehand(shapes) -> None:
    manager = make_manager(*shapes, num_pages=80)
    allocation = start(manager, X)
    for num_tokens in range(1, len(X)):
        manager.publish(allocation, sequence_of(X), num_tokens)
        assert hit(manager, X) == manager.num_cacheable(num_tokens)


# -- eviction ------------------------------------------------------------------------------


def test_growth_takes_from_every_group_when_one_has_not_enough() -> None:
    manager = make_manager(*TWO, num_pages=9)
    run(manager, X[:24])
    assert (hits(manager, X[:25]), manager.stats().num_free) == ([24, 24], 0)
    allocation = start(manager, Y[:16], 1.0)
    assert hits(manager, X[:25]) == [0, 24], "the first group gave all that was needed"
    assert manager.grow(allocation, 24) is not None
    assert hits(manager, X[:25]) == [0, 0], "and the second gave the rest"
    assert manager.grow(allocation, 25) is None
    finish(manager, allocation, Y[:24], 2.0)


def test_the_oldest_goes_first_whichever_group_it_is_in() -> None:
    manager = make_manager(*TWO, num_pages=9)
    run(manager, X[:16], 1.0)
    run(manager, Y[:16], 2.0)
    assert (hits(manager, X[:17]), hits(manager, Y[:17])) == ([4, 16], [16, 16])
    run(manager, Z[:8], 3.0)
    assert (hits(manager, X[:17]), hits(manager, Y[:17])) == ([0, 0], [16, 16])
    run(manager, Z[:12], 4.0)
    assert hits(manager, Y[:17]) == [8, 16], "and only then what is younger"


def test_any_free_page_serves_any_group() -> None:
    manager = make_manager(*TWO, num_pages=12)
    first = start(manager, X[:32])
    assert manager.stats().num_free == 0
    finish(manager, first, X[:32], 1.0)
    manager.reset()
    second = start(manager, Y[:16], 2.0)
    assert set(second.tables[1].pages) <= set(first.tables[0].pages)
    finish(manager, second, Y[:16], 3.0)


# -- copy on write -------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", SHAPES)
def test_a_hit_inside_blocks_is_copied_in_every_group(shapes) -> None:
    manager = make_manager(*shapes)
    run(manager, X[:24])
    branch = [*X[:14], *Y[:10]]
    match = manager.match(sequence_of(branch))
    assert all(partial_groups(match)), "14 tokens end inside a block of each of these groups"
    allocation = manager.begin(match, 1.0)
    assert len(allocation.copies) == sum(pages_per_block for _, pages_per_block in shapes)
    assert manager.num_missing_pages(allocation, 14) == 0
    own = [page for table in allocation.tables for page in table.pages]
    assert [copy.target in own for copy in allocation.copies] == [True] * len(allocation.copies)
    assert [copy.source in own for copy in allocation.copies] == [False] * len(allocation.copies)
    in_use = manager.stats().num_in_use
    manager.copies_done(allocation, 1.0)
    assert in_use - manager.stats().num_in_use == len(allocation.copies), "sources are let go"
    assert manager.grow(allocation, 24) is not None
    finish(manager, allocation, branch, 2.0)
    assert hit(manager, [*X[:24], 1]) == hit(manager, [*branch, 1]) == 24


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("ids", [[*X[:14], *Z[:30]], X[:30], Y[:9], Z[:40]])
def test_a_start_takes_what_was_promised_from_a_full_pool(shapes, ids) -> None:
    """All groups hold their match before one takes a page: nobody's match is evicted."""
    manager = make_manager(*shapes, num_pages=32 * len(shapes))
    run(manager, X[:24], 1.0)
    for other in range(40):
        run(manager, [900 + other, *Y[:5]], 0.5)
    assert manager.stats().num_free < max(pages_per_block for _, pages_per_block in shapes)
    match = manager.match(sequence_of(ids))
    before = manager.num_available_pages
    promised = manager.num_pages_taken(match, len(ids))
    allocation = manager.begin(match, 2.0)
    assert manager.grow(allocation, len(ids)) is not None
    assert before - manager.num_available_pages == promised
    manager.check([allocation])
    finish(manager, allocation, ids, 3.0)
    assert hit(manager, [*ids, 1]) == len(ids) // UNIT * UNIT


@pytest.mark.parametrize("shapes", SHAPES)
def test_no_copy_evicts_what_another_group_has_matched(shapes) -> None:
    """The match is the oldest thing in a full pool: each copy would take of it first."""
    probe = make_manager(*shapes)
    run(probe, X[:24])
    num_pages = probe.stats().num_evictable
    manager = make_manager(*shapes, num_pages=2 * num_pages)
    run(manager, X[:24], 1.0)
    run(manager, Y[:24], 2.0)
    assert manager.stats().num_free == 0
    branch = [*X[:22], 900, 901]
    match = manager.match(sequence_of(branch))
    assert all(partial_groups(match))
    allocation = manager.begin(match, 3.0)
    manager.check([allocation])
    assert set(hits(manager, [*X[:24], 1])) == {24}
    assert min(hits(manager, [*Y[:24], 1])) < 24, "the copies took of the younger one"
    finish(manager, allocation, branch[:22], 4.0)
