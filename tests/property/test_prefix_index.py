"""The prefix index against a model that knows every cached block by its whole text.

A letter is a unit; a block is `UNITS` letters. The model keeps one string a page: everything from
the start of the chain to the end of that page's block, be it one page a block or two. Two letters
are enough for chains to meet and part all the time.
"""

from array import array
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from okibi.core.chain_hash import DIGEST_BYTES, chain_digests, root_digest
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.prefix_index import PrefixIndex
from okibi.kvcache.retention import LRU
from okibi.kvcache.segment import Segment

pytestmark = pytest.mark.timeout(7200)  # the long lane searches for an hour

UNITS = 3
NUM_BLOCKS = 12
ROOT = root_digest("model", "")

texts = st.text("ab", min_size=1, max_size=14)
tails = st.text("ab", max_size=7)


def digests(text: str, first: int = 0) -> bytes:
    packed = array("i", map(ord, text)).tobytes()
    return chain_digests(ROOT, packed, 4)[first * DIGEST_BYTES :]


def common(left: str, right: str) -> int:
    length = 0
    while left[: length + 1] == right[: length + 1] and length < min(len(left), len(right)):
        length += 1
    return length


@dataclass(eq=False)
class User:
    """Someone who holds the chain of `text`, which is whole blocks."""

    tip: Segment
    text: str
    duplicates: list[int] = field(default_factory=list)


class PrefixIndexMachine(RuleBasedStateMachine):
    """Random users of one index over one small pool."""

    @initialize(pages_per_block=st.sampled_from([1, 2]))
    def start(self, pages_per_block: int) -> None:
        self.pages_per_block = pages_per_block
        self.num_pages = NUM_BLOCKS * pages_per_block
        self.pool = PagePool(self.num_pages)
        self.index = PrefixIndex(
            self.pool, units_per_block=UNITS, pages_per_block=pages_per_block, policy=LRU()
        )
        self.cached: dict[int, str] = {}
        self.users: list[User] = []
        self.sources: list[tuple[Segment, str]] = []
        self.now = 0.0

    # -- rules -----------------------------------------------------------------------------

    @rule(text=texts, keep_source=st.booleans())
    def begin(self, text: str, keep_source: bool) -> None:
        """Hold what matches; perhaps the partial block too, as the source of a copy."""
        match = self._check_match(text, len(text))
        if match.partial_in is not None and keep_source:
            whole = self.cached[match.partial_in.pages[-1]]
            source = self.index.hold(match.partial_in, match.partial_in.num_blocks, self._tick())
            self.sources.append((source, whole))
        tip = self.index.hold(match.segment, match.num_blocks, self._tick())
        self.users.append(User(tip, text[: match.num_units // UNITS * UNITS]))

    @precondition(lambda self: self.users)
    @rule(data=st.data(), tail=tails)
    def extend(self, data: st.DataObject, tail: str) -> None:
        """Cache whole blocks below what a user holds."""
        user = data.draw(st.sampled_from(self.users))
        text = user.text + tail[: len(tail) // UNITS * UNITS]
        num_new = (len(text) - len(user.text)) // UNITS * self.pages_per_block
        if not num_new or not self._make_room(num_new):
            return
        pages = self.pool.take(num_new)
        chain = digests(text, len(user.text))
        user.tip, duplicates = self.index.insert(user.tip, chain, pages[:])
        for i, page in enumerate(pages):
            if page not in duplicates:
                end = len(user.text) + (i // self.pages_per_block + 1) * UNITS
                self._forget_superseded(text[:end])
                self.cached[page] = text[:end]
        user.duplicates.extend(duplicates)
        user.text = text

    @precondition(lambda self: self.users)
    @rule(data=st.data(), tail=st.text("ab", max_size=UNITS - 1))
    def end(self, data: st.DataObject, tail: str) -> None:
        """Cache an incomplete last block, if it is news, and let go of everything."""
        user = data.draw(st.sampled_from(self.users))
        if tail and self._make_room(self.pages_per_block):
            pages = self.pool.take(self.pages_per_block)
            whole = user.text + tail
            is_known = self._longest_match(whole) == len(whole)
            taken = self.index.insert_partial(
                user.tip, digests(whole, len(user.text)), pages[:], self._tick()
            )
            assert taken is not is_known
            if taken:
                self._forget_superseded(whole)
                self.cached.update(dict.fromkeys(pages, whole))
            else:
                self.pool.give_back(pages)
        self.index.release(user.tip, self._tick())
        self.pool.give_back(user.duplicates)
        self.users.remove(user)

    @precondition(lambda self: self.sources)
    @rule()
    def copy_done(self) -> None:
        source, _ = self.sources.pop(0)
        self.index.release(source, self._tick())

    @rule(count=st.integers(1, 7))
    def evict(self, count: int) -> None:
        self._evict(count)

    @rule(text=texts, limit=st.integers(0, 14))
    def match(self, text: str, limit: int) -> None:
        self._check_match(text, limit)

    # -- oracles ---------------------------------------------------------------------------

    @invariant()
    def owns_what_the_model_says(self) -> None:
        assert sorted(self.index.cached_pages()) == sorted(self.cached)
        assert self.index.num_cached_pages == len(self.cached)
        assert not any(self.pool.is_free(page) for page in self.cached)

    @invariant()
    def frees_only_what_nobody_uses(self) -> None:
        assert self.index.num_evictable_pages == len(self.cached) - len(self._held_pages())

    @invariant()
    def every_ancestor_is_resident(self) -> None:
        resident = set(self.cached.values())
        for text in resident:
            assert all(text[:end] in resident for end in range(UNITS, len(text), UNITS))

    def teardown(self) -> None:
        for user in self.users:
            self.index.release(user.tip, self._tick())
            self.pool.give_back(user.duplicates)
        for source, _ in self.sources:
            self.index.release(source, self._tick())
        self.users, self.sources = [], []
        while self._evict(self.num_pages):
            pass
        assert (len(self.cached), self.pool.num_free) == (0, self.num_pages)

    def _check_match(self, text: str, limit: int):
        match = self.index.match(digests(text), limit)
        assert match.num_units == min(limit, self._longest_match(text[:limit]))
        whole, partial = divmod(match.num_units, UNITS)
        node, pages = match.segment, list(match.segment.block_pages(0, match.num_blocks))
        while node.parent is not None:
            node = node.parent
            pages[:0] = node.pages
        num_pages = whole * self.pages_per_block
        ends = [UNITS * (i // self.pages_per_block + 1) for i in range(num_pages)]
        assert [self.cached[page] for page in pages] == [text[:end] for end in ends]
        assert (match.partial_in is not None) is (partial > 0)
        if match.partial_in is not None:
            pages = match.partial_in.block_pages(match.partial_block, match.partial_block + 1)
            assert len(pages) == self.pages_per_block
            assert all(common(self.cached[page], text) >= match.num_units for page in pages)
        return match

    def _longest_match(self, text: str) -> int:
        return max((common(text, cached) for cached in self.cached.values()), default=0)

    def _held_pages(self) -> set[int]:
        held = [user.text for user in self.users] + [text for _, text in self.sources]
        return {page for page, text in self.cached.items() if any(_is_on(text, h) for h in held)}

    def _evict(self, count: int) -> int:
        evictable = self.index.num_evictable_pages
        held = self._held_pages()
        freed = self.index.evict(count)
        gone = [page for page in self.cached if self.pool.is_free(page)]
        assert freed == len(gone) < count + self.pages_per_block
        assert freed % self.pages_per_block == 0
        assert freed or not evictable
        assert not held & set(gone)
        for page in gone:
            del self.cached[page]
        return freed

    def _make_room(self, count: int) -> bool:
        while self.pool.num_free < count:
            if not self._evict(count):
                return False
        return True

    def _forget_superseded(self, text: str) -> None:
        """A new block may free partial blocks whose content it contains."""
        for page, old in tuple(self.cached.items()):
            if self.pool.is_free(page):
                assert text.startswith(old)
                assert old != text
                del self.cached[page]

    def _tick(self) -> float:
        self.now += 1.0
        return self.now


def _is_on(block: str, chain: str) -> bool:
    """Whether a block lies on a held chain; nothing lies below a partial block."""
    return block == chain or (len(block) % UNITS == 0 and chain.startswith(block))


TestPrefixIndex = PrefixIndexMachine.TestCase
