"""Waiting for a prefix that another request is computing.

When many requests with one cold prefix arrive together, the first computes it and the others wait
until it is cached, rather than computing it once each. They wait only for a request that is
running, so the wait ends when the prefix is there, or when its producer finishes, is preempted or
dies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from okibi.control.scheduler.state import PrefixWait, RequestState
from okibi.core.chain_hash import DIGEST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixWaitRule:
    """Finds whom to wait for.

    Attributes:
        unit: Tokens a digest.
        num_cacheable: How many leading tokens of a running request are cached once so many are
            computed.
    """

    unit: int
    num_cacheable: Callable[[int], int]

    def find(
        self, waiter: RequestState, num_hit_tokens: int, producers: Iterable[RequestState]
    ) -> PrefixWait | None:
        """A wait that would give `waiter` more than the `num_hit_tokens` it would hit now.

        Args:
            producers: Requests that are computing their prompts, or will be in this step.
        """
        chain = waiter.sequence.digests()
        longest_hit = len(waiter.sequence) - 1
        for producer in producers:
            shared = _common_units(chain, producer.sequence.digests()) * self.unit
            if shared <= num_hit_tokens:
                continue
            will_cache = self.num_cacheable(len(producer.sequence))
            gain_until = min(shared, will_cache, longest_hit) // self.unit * self.unit
            wait = PrefixWait(producer, gain_until, self.num_cacheable)
            if gain_until > num_hit_tokens and not wait.is_cached:
                return wait
        return None


def _common_units(left: bytearray, right: bytearray) -> int:
    """Digests are chained: equal at k means equal up to k."""
    if left[:DIGEST_BYTES] != right[:DIGEST_BYTES]:
        return 0
    low, high = 0, min(len(left), len(right)) // DIGEST_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        at = (middle - 1) * DIGEST_BYTES
        if left[at : at + DIGEST_BYTES] == right[at : at + DIGEST_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
