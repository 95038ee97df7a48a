"""Waiting for a prefix that another request is computing.

When many requests with one cold prefix arrive together, the first computes it and the others wait
until it is cached, rather than computing it once each. They wait only for a request that is
running, so the wait ends when the prefix is there, or when its producer finishes, is preempted or
dies.
"""

from collections.abc import Iterable

from okibi.control.scheduler.state import RequestState
from okibi.core.chain_hash import DIGEST_BYTES


def find_producer(
    waiter: RequestState,
    num_hit_tokens: int,
    producers: Iterable[RequestState],
    *,
    unit: int,
    block_tokens: int,
) -> RequestState | None:
    """A request that is about to cache more of the waiter's prefix than it would hit now.

    Args:
        num_hit_tokens: What the waiter would hit now.
        producers: Requests that are computing their prompts.
        unit: Tokens a digest.
        block_tokens: Only whole blocks are cached while their request runs.
    """
    chain = waiter.sequence.digests()
    longest_hit = len(waiter.sequence) - 1
    for producer in producers:
        shared = _common_units(chain, producer.sequence.digests()) * unit
        will_cache = len(producer.sequence) // block_tokens * block_tokens
        gain_until = min(shared, will_cache, longest_hit) // unit * unit
        has_cached = producer.num_confirmed // block_tokens * block_tokens
        if gain_until > num_hit_tokens and has_cached < gain_until:
            return producer
    return None


def _common_units(left: bytearray, right: bytearray) -> int:
    """Digests are chained: equal at k means equal up to k."""
    low, high = 0, min(len(left), len(right)) // DIGEST_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        at = (middle - 1) * DIGEST_BYTES
        if left[at : at + DIGEST_BYTES] == right[at : at + DIGEST_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
