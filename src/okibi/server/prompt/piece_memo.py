"""Token ids of text seen before, so that a growing conversation is not tokenised again.

A least-recently-used map from a piece of text to its packed ids, bounded by the memory it takes.
Safe to use from several threads.
"""

import sys
from collections import OrderedDict
from threading import Lock

DEFAULT_MAX_BYTES = 256 << 20
_ENTRY_OVERHEAD_BYTES = 256

Key = tuple[str, str]


class PieceMemo:
    """Packed int32 ids by (what stands before the piece, the piece)."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[Key, bytes] = OrderedDict()
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Memory held, approximately."""
        return self._num_bytes

    def get(self, key: Key) -> bytes | None:
        with self._lock:
            ids = self._entries.get(key)
            if ids is not None:
                self._entries.move_to_end(key)
            return ids

    def put(self, key: Key, ids: bytes) -> None:
        """Keep `ids`; the pieces unused for longest make room."""
        cost = _cost(key, ids)
        if cost > self._max_bytes:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = ids
            self._num_bytes += cost
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= _cost(*self._entries.popitem(last=False))


def _cost(key: Key, ids: bytes) -> int:
    return sys.getsizeof(key[1]) + len(ids) + _ENTRY_OVERHEAD_BYTES
