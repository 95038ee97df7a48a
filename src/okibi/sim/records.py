"""What happened to each request, with times.

Owns the timestamps from which every metric of a simulated run is computed. All times are seconds
of the virtual clock. It only collects; it decides nothing.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from okibi.core.ids import RequestId
from okibi.core.output import FinishReason, RequestOutput


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One request from arrival to end.

    Attributes:
        token_times_s: When each token of `token_ids` came out.
        finish_s: None while it runs.
        num_cached_tokens: Prompt tokens that were cached when it first ran; None before.
    """

    request_id: RequestId
    arrival_s: float
    token_ids: list[int] = field(default_factory=list[int])
    token_times_s: list[float] = field(default_factory=list[float])
    finish_s: float | None = None
    finish_reason: FinishReason | None = None
    num_cached_tokens: int | None = None

    @property
    def first_token_s(self) -> float:
        """When the first token came out.

        Raises:
            IndexError: none did.
        """
        return self.token_times_s[0]

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def gaps_s(self) -> list[float]:
        """Times between tokens that follow each other."""
        return [later - earlier for earlier, later in pairwise(self.token_times_s)]

    def add(self, output: RequestOutput, now: float) -> None:
        """Note one output."""
        self.token_ids.extend(output.token_ids)
        self.token_times_s.extend([now] * len(output.token_ids))
        if output.num_cached_tokens is not None:
            self.num_cached_tokens = output.num_cached_tokens
        if output.finish_reason is not None:
            self.finish_reason = output.finish_reason
            self.finish_s = now
