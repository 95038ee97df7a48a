"""What is kept of one request: times from which every metric is computed, counts, the error.

Values only. Must never hold a prompt or a reply: a long run keeps every record in memory, and a
prompt of an agent has hundreds of kilobytes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFailure:
    """Why a request has no result.

    `kind` is one of connection, timeout, http_<status>, context_overflow, stream_error, truncated,
    no_tokens, or cancelled (ended by the replay itself; not the server's fault).
    """

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult:
    """What the server did. Times are seconds on the replay's clock; None where not seen.

    `first_token_s` and `last_token_s` are the first and last chunk with content.
    """

    start_s: float
    end_s: float
    first_token_s: float | None = None
    last_token_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    failure: RequestFailure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """One request: its place in the workload and its result.

    `due_s` is when it was allowed to start. `recorded_*` come from the trace. `theoretical_*` are
    blocks by recorded order; `num_reusable_blocks` are leading blocks that this very run had sent
    before, other plays included: no cache that starts empty can hit more.
    """

    trace_id: str
    play: int
    lane: int
    conversation: str
    turn: int
    depth: int
    correlation_id: str
    due_s: float
    recorded_input_tokens: int
    recorded_output_tokens: int
    theoretical_hit_blocks: int
    theoretical_total_blocks: int
    num_reusable_blocks: int
    result: RequestResult

    @property
    def ok(self) -> bool:
        """Whether the request has a complete result."""
        return self.result.failure is None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from start to the first content."""
        first = self.result.first_token_s
        return None if first is None else first - self.result.start_s

    @property
    def latency_s(self) -> float | None:
        """Seconds from start to the last content."""
        last = self.result.last_token_s
        return None if last is None else last - self.result.start_s

    @property
    def itl_s(self) -> float | None:
        """Mean seconds between output tokens after the first; None below two tokens."""
        num_tokens, ttft, latency = self.result.completion_tokens, self.ttft_s, self.latency_s
        if num_tokens is None or num_tokens < 2 or ttft is None or latency is None:
            return None
        return (latency - ttft) / (num_tokens - 1)
