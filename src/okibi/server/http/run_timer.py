"""Measures a call as its client feels it.

Time to the first token of each choice, time between tokens, time to the end, and how choices end.
Feeds the histograms of `metrics`; reads only the clock it is given.
"""

from okibi.core.clock import Clock
from okibi.server.http.latency import Latency


class RunTimer:
    """One call's stopwatch, started when the call arrived."""

    def __init__(self, latency: Latency, clock: Clock) -> None:
        self._latency = latency
        self._clock = clock
        self._started_at = clock.now()
        self._last_at: dict[int, float] = {}

    def produced(self, index: int, num_tokens: int) -> None:
        """Choice `index` got `num_tokens` more tokens."""
        if num_tokens == 0:
            return
        now = self._clock.now()
        last = self._last_at.get(index)
        if last is None:
            self._latency.time_to_first_token.observe(now - self._started_at)
        else:
            gap_s = (now - last) / num_tokens
            for _ in range(num_tokens):
                self._latency.inter_token_latency.observe(gap_s)
        self._last_at[index] = now

    def finished(self, reason: str) -> None:
        """A choice ended."""
        self._latency.finished.labels(reason).inc()
        self._latency.end_to_end.observe(self._clock.now() - self._started_at)
