"""Measures one case on a running server.

A repeat that gives no figure is named in the problems and the others still count. Greedy, no stop
at the end token, so that every engine generates as many tokens as asked for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from benchmarks.peers.cases import Case, DecodeCase, PrefillCase, ReplayCase, StreamsCase
from benchmarks.peers.prompts import PromptSource
from benchmarks.peers.replays import Replays
from benchmarks.peers.servers import MODEL_NAME
from benchmarks.peers.speed import (
    StreamTimes,
    UnusableResult,
    check_result,
    decode_speed,
    overall_speed,
    prefill_speed,
    steady_speed,
)
from okibi.bench.replay.client import OnContent, StreamClient, StreamRequest
from okibi.bench.replay.records import RequestResult


@dataclass(kw_only=True, slots=True)
class Measured:
    """Values by name, one a repeat, and what is wrong with them."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)

    async def add(self, repeat: Callable[[], Awaitable[dict[str, float]]]) -> None:
        """Take the values of one repeat, or the reason why there are none."""
        try:
            for name, value in (await repeat()).items():
                self.values[name].append(value)
        except UnusableResult as error:
            self.problems.append(str(error))


class Measurement:
    """Measures cases of one round on one server."""

    def __init__(self, client: StreamClient, replays: Replays, prompts: PromptSource) -> None:
        """`client` sends plain completions."""
        self._client = client
        self._replays = replays
        self._prompts = prompts

    async def first_token(self, round_number: int) -> float:
        """When a short first request had its token. Raises UnusableResult."""
        result = await self._one_token(f"{round_number}:first", 8)
        assert result.first_token_s is not None
        return result.first_token_s

    async def measure(self, case: Case, round_number: int) -> Measured:
        """All repeats of a case."""
        measured = Measured()
        key = f"{round_number}:{case.name}"
        if isinstance(case, ReplayCase):
            await measured.add(lambda: self._replays.play(case, self._prompts.key(key)))
            return measured
        for repeat in range(case.repeats):
            await measured.add(self._repeat(case, key, repeat))
        return measured

    def _repeat(
        self, case: PrefillCase | DecodeCase | StreamsCase, key: str, repeat: int
    ) -> Callable[[], Awaitable[dict[str, float]]]:
        if isinstance(case, PrefillCase):
            return lambda: self._prefill(case, f"{key}:{repeat}")
        if isinstance(case, DecodeCase):
            return lambda: self._decode(case, key)
        return lambda: self._streams(case, f"{key}:{repeat}")

    async def _prefill(self, case: PrefillCase, key: str) -> dict[str, float]:
        return {"tok_per_s": prefill_speed(await self._one_token(key, case.num_tokens))}

    async def _decode(self, case: DecodeCase, key: str) -> dict[str, float]:
        result, _ = await self._send(key, case.context, case.num_output)
        return {"tok_per_s": decode_speed(result)}

    async def _streams(self, case: StreamsCase, key: str) -> dict[str, float]:
        sends = [
            self._send(f"{key}:{stream}", case.context, case.num_output)
            for stream in range(case.num_streams)
        ]
        answers = await asyncio.gather(*sends)
        streams = [
            StreamTimes(pieces=tuple(pieces), num_tokens=case.num_output) for _, pieces in answers
        ]
        return {
            "tok_per_s": steady_speed(streams),
            "overall_tok_per_s": overall_speed([result for result, _ in answers]),
        }

    async def _one_token(self, key: str, num_prompt: int) -> RequestResult:
        """A reply of one token; if its text is half a character, it came when the stream ended."""
        result = await self._stream(self._request(key, num_prompt, 1))
        if result.failure is None and result.first_token_s is None:
            result = replace(result, first_token_s=result.end_s)
        check_result(result, 1)
        return result

    async def _send(
        self, key: str, num_prompt: int, num_output: int
    ) -> tuple[RequestResult, list[float]]:
        pieces: list[float] = []
        request = self._request(key, num_prompt, num_output)
        result = await self._stream(request, pieces.append)
        check_result(result, num_output)
        return result, pieces

    async def _stream(
        self, request: StreamRequest, on_content: OnContent = lambda _: None
    ) -> RequestResult:
        """Raises CancelledError where the client makes a result of it: the run is to end."""
        result = await self._client.stream(request, on_content)
        if result.failure is not None and result.failure.kind == "cancelled":
            raise asyncio.CancelledError
        return result

    def _request(self, key: str, num_prompt: int, num_output: int) -> StreamRequest:
        body = {
            "model": MODEL_NAME,
            "prompt": self._prompts.token_ids(key, num_prompt),
            "max_tokens": num_output,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return StreamRequest(body=body, headers={})
