"""The free pages of one arena, shared by every group.

Owns which pages are free; any free page serves any group. It does not know why a page is taken:
a request's private pages and the prefix index's cached pages both count as taken here. Pages are
handed out oldest-freed first, so that a page rests as long as possible before it is overwritten.
"""

from array import array
from collections import deque
from collections.abc import Iterable

from okibi.core.ids import PageId


class PagePool:
    """A bounded set of page ids with FIFO reuse."""

    def __init__(self, num_pages: int) -> None:
        self._free: deque[PageId] = deque(PageId(page) for page in range(num_pages))
        self._is_free = bytearray(b"\x01" * num_pages)

    @property
    def num_pages(self) -> int:
        return len(self._is_free)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def is_free(self, page: int) -> bool:
        return bool(self._is_free[page])

    def take(self, count: int) -> "array[int]":
        """Take `count` pages; the caller has checked that they are there."""
        if count > len(self._free):
            raise ValueError(f"{count} pages wanted, {len(self._free)} are free")
        taken = array("i", (self._free.popleft() for _ in range(count)))
        for page in taken:
            self._is_free[page] = 0
        return taken

    def give_back(self, pages: Iterable[int]) -> None:
        """Make pages free again.

        Raises:
            ValueError: a page is free already.
        """
        for page in pages:
            if self._is_free[page]:
                raise ValueError(f"page {page} was given back twice")
            self._is_free[page] = 1
            self._free.append(PageId(page))
