"""The prefix index by example; `tests/property` compares it with a brute-force model."""

from array import array

import pytest

from okibi.core.chain_hash import DIGEST_BYTES, chain_digests, root_digest
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.prefix_index import PrefixIndex
from okibi.kvcache.retention import LRU
from okibi.kvcache.segment import Segment

ROOT = root_digest("model", "")
UNITS = 4  # units of one token, so a digest a token


def chain(text: str) -> bytes:
    return chain_digests(ROOT, array("i", map(ord, text)).tobytes(), 4)


class Harness:
    """An index over a pool of `num_pages`, addressed by strings of one token a letter."""

    def __init__(self, num_pages: int = 32) -> None:
        self.pool = PagePool(num_pages)
        self.index = PrefixIndex(self.pool, units_per_block=UNITS, policy=LRU())

    def cache(self, text: str, now: float = 0.0) -> list[int]:
        """Cache a chain of whole blocks as a request would, then let go of it."""
        tip, pages = self.hold(text, now)
        self.index.release(tip, now)
        return pages

    def hold(self, text: str, now: float = 0.0) -> tuple[Segment, list[int]]:
        match = self.index.match(chain(text), len(text))
        tip = self.index.hold(match.segment, match.num_blocks, now)
        done = match.num_units // UNITS
        new = self.pool.take(len(text) // UNITS - done)
        tip, duplicates = self.index.insert(tip, chain(text)[done * UNITS * DIGEST_BYTES :], new)
        assert not duplicates
        return tip, list(new)

    def hit(self, text: str) -> int:
        return self.index.match(chain(text), len(text)).num_units


def test_a_hit_ends_where_content_parts_even_inside_a_block() -> None:
    h = Harness()
    pages = h.cache("aaaabbbbcccc")
    assert h.hit("aaaabbbbcccc") == 12
    assert h.hit("aaaabbbbcccX") == 11
    assert h.hit("aaXa") == 2
    assert h.hit("Xaaa") == 0
    match = h.index.match(chain("aaaabbXX"), 8)
    assert (match.num_units, match.num_blocks) == (6, 1)
    assert match.partial_in is not None
    assert match.partial_in.pages[match.partial_block] == pages[1]


def test_max_units_caps_a_hit() -> None:
    h = Harness()
    h.cache("aaaabbbb")
    match = h.index.match(chain("aaaabbbb"), 7)
    assert match.num_units == 7
    assert match.partial_in is not None


def test_branches_share_their_ancestor() -> None:
    h = Harness()
    h.cache("aaaabbbb")
    new = h.cache("aaaacccc")
    assert len(new) == 1
    assert h.index.num_cached_pages == 3
    assert h.hit("aaaabbbb") == h.hit("aaaacccc") == 8


def test_the_sibling_that_shares_most_of_a_block_wins() -> None:
    h = Harness()
    h.cache("aaXX")
    h.cache("aaaX")
    h.cache("aXXX")
    assert h.hit("aaaa") == 3


def test_what_is_held_is_not_evicted_and_what_is_below_goes_first() -> None:
    h = Harness()
    h.cache("aaaabbbb", now=1.0)
    tip, _ = h.hold("aaaacccc", now=2.0)
    assert h.index.num_evictable_pages == 1
    assert [h.index.evict(9), h.index.evict(9)] == [1, 0]
    assert h.hit("aaaabbbb") == 4
    h.index.release(tip, 3.0)
    assert h.index.num_evictable_pages == 2
    assert h.index.evict(1) == 1
    assert h.hit("aaaacccc") == 4, "the tail goes before its ancestor"


def test_least_recently_used_goes_first() -> None:
    h = Harness()
    h.cache("aaaa", now=1.0)
    h.cache("bbbb", now=2.0)
    h.cache("aaaa", now=3.0)
    h.index.evict(1)
    assert (h.hit("aaaa"), h.hit("bbbb")) == (4, 0)


def test_content_cached_by_someone_else_meanwhile_stays_with_the_caller() -> None:
    h = Harness()
    tips = [h.index.hold(h.index.root, 0, 0.0) for _ in range(2)]
    mine, theirs = h.pool.take(2), h.pool.take(2)
    first, none = h.index.insert(tips[0], chain("aaaabbbb"), theirs)
    second, duplicates = h.index.insert(tips[1], chain("aaaabbbb"), mine)
    assert first is second
    assert not none
    assert duplicates == mine
    longer, duplicates = h.index.insert(
        second, chain("aaaabbbbcccc")[8 * DIGEST_BYTES :], h.pool.take(1)
    )
    assert not duplicates
    assert longer is not first, "another holder's tip is never extended under it"


def test_a_sole_holder_extends_its_segment_in_place() -> None:
    h = Harness()
    tip, _ = h.hold("aaaa")
    longer, _ = h.index.insert(tip, chain("aaaabbbb")[UNITS * DIGEST_BYTES :], h.pool.take(1))
    assert longer is tip
    assert h.hit("aaaabbbb") == 8


def test_a_partial_block_is_superseded_by_the_whole_one() -> None:
    h = Harness()
    tip, _ = h.hold("aaaa")
    page = h.pool.take(1)
    tail = chain("aaaabb")[UNITS * DIGEST_BYTES :]
    assert h.index.insert_partial(tip, tail, page, 1.0)
    assert not h.index.insert_partial(tip, tail, page, 1.0), "cached already"
    assert h.hit("aaaabbXX") == 6
    free = h.pool.num_free
    h.index.insert(tip, chain("aaaabbbb")[UNITS * DIGEST_BYTES :], h.pool.take(1))
    assert h.pool.num_free == free, "the partial page went back when the whole block came"
    assert h.hit("aaaabbbb") == 8


def test_holding_a_match_inside_a_segment_frees_what_is_below() -> None:
    h = Harness()
    h.cache("aaaabbbbccccdddd")
    match = h.index.match(chain("aaaabbbb"), 8)
    assert h.index.num_idle_pages(match) == 2
    h.index.hold(match.segment, match.num_blocks, 1.0)
    assert h.index.num_evictable_pages == 2


def test_stale_candidates_do_not_pile_up() -> None:
    h = Harness()
    for turn in range(5_000):
        h.cache("aaaabbbb", now=float(turn))
    assert len(h.index._candidates) < 2_100
    assert h.index.evict(2) == 2


def test_a_page_cannot_be_given_back_twice() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    pool.give_back(pages)
    with pytest.raises(ValueError, match="twice"):
        pool.give_back(pages)
    with pytest.raises(ValueError, match="3 pages wanted"):
        pool.take(3)
