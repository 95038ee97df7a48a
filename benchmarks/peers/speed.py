"""Tokens per second out of the times of streamed requests.

Pure. Counts are those of the servers' `usage`, never assumed. A piece of a stream may hold several
tokens, so where tokens of a window are counted, each piece of a stream stands for an equal part of
the stream's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.replay.records import RequestResult


class UnusableResult(Exception):
    """A request gives no figure; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamTimes:
    """One stream: when its pieces came (seconds, rising) and how many tokens they were."""

    pieces: tuple[float, ...]
    num_tokens: int

    def num_tokens_in(self, start_s: float, end_s: float) -> float:
        """Tokens after `start_s` up to `end_s`."""
        num_pieces = sum(start_s < time <= end_s for time in self.pieces)
        return num_pieces * self.num_tokens / len(self.pieces)


def check_result(result: RequestResult, num_output: int) -> None:
    """Raise UnusableResult unless the reply came whole and as long as asked for."""
    if result.failure is not None:
        raise UnusableResult(f"{result.failure.kind}: {result.failure.message}")
    if result.prompt_tokens is None or result.completion_tokens is None:
        raise UnusableResult("the server sent no usage")
    if result.completion_tokens != num_output:
        raise UnusableResult(f"{result.completion_tokens} tokens instead of {num_output}")
    if result.first_token_s is None:
        raise UnusableResult("no token was seen to come")


def prefill_speed(result: RequestResult) -> float:
    """Prompt tokens per second up to the first token. Raises UnusableResult for a cache hit."""
    if result.cached_tokens:
        raise UnusableResult(f"{result.cached_tokens} tokens of a new prompt were cached")
    assert result.first_token_s is not None and result.prompt_tokens is not None
    return result.prompt_tokens / (result.first_token_s - result.start_s)


def decode_speed(result: RequestResult) -> float:
    """Tokens per second after the first one. Raises UnusableResult for a reply in one piece."""
    assert result.first_token_s is not None and result.completion_tokens is not None
    last_s = result.last_token_s
    if last_s is None or last_s <= result.first_token_s:
        raise UnusableResult("the reply came in one piece")
    return (result.completion_tokens - 1) / (last_s - result.first_token_s)


def steady_speed(streams: Sequence[StreamTimes]) -> float:
    """Tokens per second of all streams while every one of them runs.

    That is from the last stream's first piece to the first stream's last one. Raises UnusableResult
    if they never all ran at once.
    """
    start_s = max(stream.pieces[0] for stream in streams)
    end_s = min(stream.pieces[-1] for stream in streams)
    if end_s <= start_s:
        raise UnusableResult("the streams never all ran at once")
    return sum(stream.num_tokens_in(start_s, end_s) for stream in streams) / (end_s - start_s)


def overall_speed(results: Sequence[RequestResult]) -> float:
    """Generated tokens per second from the first start to the last end, prefill included."""
    start_s = min(result.start_s for result in results)
    end_s = max(result.end_s for result in results)
    return sum(result.completion_tokens or 0 for result in results) / (end_s - start_s)
