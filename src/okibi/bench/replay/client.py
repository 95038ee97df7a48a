"""One streaming completion, of a chat or of a plain prompt, timed.

Speaks the OpenAI API as any client would and nothing more. Reads the body as it arrives, splits
server-sent events itself (a line may be longer than a library's limit) and stamps each event with
the injected clock. Must never raise for what a server does: every outcome is a `RequestResult`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from okibi.bench.replay.records import RequestFailure, RequestResult
from okibi.core.clock import Clock

_OVERFLOW_SIGNS = (
    "context_length_exceeded",
    "maximum context length",
    "context length",
    "context window",
    "max_model_len",
    "exceeds the model",
    "prompt is too long",
)
_MAX_MESSAGE_CHARS = 300

OnContent = Callable[[float], None]
"""Told the time of each event with content, on the client's clock."""


def _ignore(_: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamRequest:
    """A request as it goes on the wire."""

    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(slots=True)
class _Progress:
    """What the stream has shown so far."""

    on_content: OnContent
    first_token_s: float | None = None
    last_token_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finished: bool = False
    failure: RequestFailure | None = None

    def note_content(self, now: float) -> None:
        if self.first_token_s is None:
            self.first_token_s = now
        self.last_token_s = now
        self.on_content(now)

    def result(self, start_s: float, end_s: float) -> RequestResult:
        return RequestResult(
            start_s=start_s,
            end_s=end_s,
            first_token_s=self.first_token_s,
            last_token_s=self.last_token_s,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            failure=self.failure or self._missing(),
        )

    def _missing(self) -> RequestFailure | None:
        if not self.finished:
            return RequestFailure(kind="truncated", message="the stream ended before its finish")
        if self.first_token_s is None and not self.completion_tokens:
            return RequestFailure(kind="no_tokens", message="the reply had no content")
        return None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None

    @property
    def has_content(self) -> bool:
        return bool(self.content or self.reasoning_content or self.reasoning or self.tool_calls)


class _Choice(msgspec.Struct):
    """A chat's choice has a delta, a plain completion's a text."""

    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def has_content(self) -> bool:
        return bool(self.text) or (self.delta is not None and self.delta.has_content)


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _Chunk(msgspec.Struct):
    """The parts of a streamed chunk that are measured; servers send more."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


class StreamClient:
    """Sends completions to one endpoint of a server."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, clock: Clock, timeout_s: float
    ) -> None:
        """`url` is the endpoint's; `timeout_s` bounds a whole request."""
        self._session = session
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s

    async def stream(
        self, request: StreamRequest, on_content: OnContent = _ignore
    ) -> RequestResult:
        """Send and read to the end; a cancelled call is a result of kind `cancelled`."""
        body = msgspec.json.encode(request.body)
        progress = _Progress(on_content)
        start_s = self._clock.now()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._read(body, request.headers, progress)
        except TimeoutError:
            message = f"no end after {self._timeout_s:g} s"
            progress.failure = RequestFailure(kind="timeout", message=message)
        except (aiohttp.ClientError, OSError) as error:
            message = str(error) or type(error).__name__
            progress.failure = RequestFailure(kind="connection", message=message)
        except asyncio.CancelledError:
            progress.failure = RequestFailure(kind="cancelled", message="ended by the replay")
        return progress.result(start_s, self._clock.now())

    async def _read(self, body: bytes, headers: dict[str, str], progress: _Progress) -> None:
        headers = {**headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            if response.status != 200:
                progress.failure = _refusal(response.status, await response.text())
                return
            buffer = b""
            async for chunk in response.content.iter_any():
                now = self._clock.now()
                *lines, buffer = (buffer + chunk).split(b"\n")
                for event in _events(lines):
                    _apply_event(event, now, progress)


def _events(lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        if line.startswith(b"data:"):
            yield line[5:].strip()


def _apply_event(event: bytes, now: float, progress: _Progress) -> None:
    if event == b"[DONE]":
        progress.finished = True
        return
    try:
        chunk = msgspec.json.decode(event, type=_Chunk)
    except msgspec.DecodeError as error:
        message = _shorten(f"an event is not a completion chunk: {error}")
        progress.failure = RequestFailure(kind="stream_error", message=message)
        return
    if chunk.error:
        progress.failure = RequestFailure(kind="stream_error", message=_shorten(str(chunk.error)))
        return
    if chunk.usage is not None:
        _apply_usage(chunk.usage, progress)
    for choice in chunk.choices or ():
        if choice.has_content:
            progress.note_content(now)
        if choice.finish_reason:
            progress.finished = True


def _apply_usage(usage: _Usage, progress: _Progress) -> None:
    progress.prompt_tokens = usage.prompt_tokens
    progress.completion_tokens = usage.completion_tokens
    if usage.prompt_tokens_details is not None:
        progress.cached_tokens = usage.prompt_tokens_details.cached_tokens


def _refusal(status: int, text: str) -> RequestFailure:
    lowered = text.lower()
    if status in (400, 413, 422) and any(sign in lowered for sign in _OVERFLOW_SIGNS):
        return RequestFailure(kind="context_overflow", message=_shorten(text))
    return RequestFailure(kind=f"http_{status}", message=_shorten(text))


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_MESSAGE_CHARS else flat[: _MAX_MESSAGE_CHARS - 3] + "..."
