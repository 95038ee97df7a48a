"""Sends a run's answer: in one piece, or as server-sent events.

Once headers are out, a failure is a framed error and the end: no finish reason, no `[DONE]`.
Through long silences an empty frame goes out, because clients count only events that they can
parse as a sign of life.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from okibi.server.http.disconnect import ClientGone, until_disconnect
from okibi.server.http.errors import as_api_error
from okibi.server.http.reply_format import Choice, Json, ReplyFormat
from okibi.server.http.run import Run

_log = logging.getLogger("okibi.http")
_encode = msgspec.json.Encoder().encode
_LINE_ENDS = tuple((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\x85\u2028\u2029")
_DONE = b"data: [DONE]\n\n"


async def whole_answer(run: Run, reply: ReplyFormat, silence_s: float) -> Response:
    """Run to the end and answer in one piece."""
    choices = [Choice(index) for index in range(len(run.call.requests))]
    async for delta in run.deltas(silence_s):
        if delta is None:
            continue
        choice = choices[delta.index]
        choice.texts.append(delta.gained.text)
        choice.logprobs.extend(delta.gained.logprobs)
        if delta.finish_reason is not None:
            choice.finish_reason = delta.finish_reason
    return Response(_encode(reply.answer(choices, run.usage)), media_type="application/json")


class EventStream(Response):
    """A response that sends a run's frames as they come and stops the run when it ends."""

    media_type = "text/event-stream"

    def __init__(
        self, run: Run, reply: ReplyFormat, silence_s: float, on_end: Callable[[], None]
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._run = run
        self._reply = reply
        self._silence_s = silence_s
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_disconnect(receive, self._send(send))
        except (ClientGone, OSError):
            return
        finally:
            self._run.close()
            self._on_end()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for frame in self._frames():
                await _send_bytes(send, _event(_encode(frame)))
            await _send_bytes(send, _DONE)
        except (asyncio.CancelledError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - the client must learn of any failure
            answer = as_api_error(error)
            if answer.code == "internal_error":
                _log.exception("a stream failed")
            await _send_bytes(send, _event(answer.body()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _frames(self) -> AsyncIterator[Json]:
        reply, call = self._reply, self._run.call
        num_open = len(call.requests)
        for index in range(num_open):
            if (opening := reply.opening(index)) is not None:
                yield opening
        async for delta in self._run.deltas(self._silence_s):
            if delta is None:
                if (frame := reply.keep_alive()) is not None:
                    yield frame
                continue
            if delta.gained:
                yield reply.delta(delta.index, delta.gained)
            if delta.finish_reason is not None:
                num_open -= 1
                ending = reply.ending(delta.index, delta.finish_reason)
                if num_open == 0 and call.include_usage is None:
                    ending["usage"] = self._run.usage.as_json()
                yield ending
        if call.include_usage:
            yield reply.usage(self._run.usage)


def _event(json: bytes) -> bytes:
    """A server-sent event.

    Many clients read streams by lines of text, and take Unicode's own line ends for such; inside a
    JSON string they can be escaped.
    """
    for raw, escaped in _LINE_ENDS:
        json = json.replace(raw, escaped)
    return b"data: " + json + b"\n\n"


async def _send_bytes(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
