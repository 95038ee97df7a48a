"""The instruments that only the HTTP side can read: latencies and ends, as clients see them.

Held outside any registry; `metrics` publishes them under every name they have.
"""

from prometheus_client import Counter, Histogram

_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560)
_GAP_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 40)

FINISH_REASONS = ("stop", "length", "abort", "error")


class Latency:
    """Histograms in seconds, and choices by how they ended."""

    def __init__(self) -> None:
        self.time_to_first_token = _histogram(
            "time_to_first_token_seconds", "From a call's arrival to its first token."
        )
        self.inter_token_latency = _histogram(
            "inter_token_latency_seconds", "Between two tokens of one choice.", _GAP_BUCKETS
        )
        self.end_to_end = _histogram(
            "e2e_request_latency_seconds", "From a call's arrival to the end of a choice."
        )
        self.finished = Counter(
            "okibi:requests_finished", "Choices by how they ended.", ["reason"], registry=None
        )
        for reason in FINISH_REASONS:
            self.finished.labels(reason)


def _histogram(
    name: str, help_text: str, buckets: tuple[float, ...] = _LATENCY_BUCKETS
) -> Histogram:
    return Histogram(f"okibi:{name}", help_text, buckets=buckets, registry=None)
