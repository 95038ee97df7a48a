"""Least recently used first."""

from okibi.kvcache.retention.policy import CachedSegment


class LRU:
    """Evicts what was not used for the longest time."""

    def key(self, segment: CachedSegment) -> float:
        return segment.last_used_s
