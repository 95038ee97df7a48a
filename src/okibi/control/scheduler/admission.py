"""Whether a request may enter at all.

Decided when it arrives, before any work: what can never run is refused for good, what cannot wait
is refused for now. A group of choices is taken as a whole or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.core.output import Rejection, RejectReason
from okibi.core.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the replica has taken on already."""

    num_unfinished: int
    num_waiting_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """`servable_len` in tokens; `max_unfinished` counts running and waiting requests."""

    servable_len: int
    max_unfinished: int
    max_waiting_tokens: int
    retry_after_s: float = 1.0

    def judge(self, requests: Sequence[Request], load: Load) -> Rejection | None:
        """Why these requests are refused; None if they are taken."""
        for request in requests:
            refusal = self._judge_length(request)
            if refusal is not None:
                return refusal
        return self._judge_load(requests, load)

    def _judge_length(self, request: Request) -> Rejection | None:
        num_prompt, num_output = len(request.prompt), request.sampling.max_tokens
        if num_prompt == 0:
            return Rejection(reason=RejectReason.INVALID, message="the prompt has no tokens")
        if num_prompt + num_output <= self.servable_len:
            return None
        return Rejection(
            reason=RejectReason.CONTEXT_LENGTH_EXCEEDED,
            message=(
                f"This model's maximum context length is {self.servable_len} tokens. However, "
                f"you requested {num_prompt + num_output} tokens ({num_prompt} in the prompt, "
                f"{num_output} for the completion). Shorten the prompt or ask for fewer tokens."
            ),
        )

    def _judge_load(self, requests: Sequence[Request], load: Load) -> Rejection | None:
        if load.num_unfinished + len(requests) > self.max_unfinished:
            return self._busy(f"{load.num_unfinished} requests are running or waiting")
        num_tokens = load.num_waiting_tokens + sum(len(request.prompt) for request in requests)
        is_alone = len(requests) == 1 and not load.num_waiting_tokens
        if num_tokens > self.max_waiting_tokens and not is_alone:
            return self._busy(f"{num_tokens} prompt tokens would be waiting")
        return None

    def _busy(self, why: str) -> Rejection:
        return Rejection(
            reason=RejectReason.QUEUE_FULL,
            message=f"The server is busy: {why}. Try again later.",
            retry_after_s=self.retry_after_s,
        )
