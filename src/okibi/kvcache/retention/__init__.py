"""Eviction policies: each turns a cached leaf into a sort key; the smallest goes first."""

from collections.abc import Callable

from okibi.kvcache.retention.lru import LRU
from okibi.kvcache.retention.policy import EvictionPolicy

EVICTION_POLICIES: dict[str, Callable[[], EvictionPolicy]] = {"lru": LRU}

__all__ = ["EVICTION_POLICIES", "LRU", "EvictionPolicy"]
