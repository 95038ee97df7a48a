"""The protocol of eviction policies.

A policy sees facts about one cached segment and returns a number; it never mutates, reads no
clock and holds no reference to the index.
"""

from typing import Protocol


class CachedSegment(Protocol):
    """What a policy may know about a run of cached blocks.

    `last_used_s` is the latest time it, or a descendant evicted since, was matched or released.
    """

    @property
    def last_used_s(self) -> float: ...

    @property
    def num_blocks(self) -> int: ...


class EvictionPolicy(Protocol):
    """Ranks segments for eviction."""

    def key(self, segment: CachedSegment) -> float:
        """The segment with the smallest key is evicted first; ties go by age of the entry."""
        ...
