"""Sends a run's answer: in one piece, or as server-sent events.

Once headers are out, a failure is a framed error and the end: no finish reason, no closing frame.
Through long silences an empty frame goes out, because clients count only events that they can
parse as a sign of life. Which frames there are is the `ReplyFormat`'s.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from okibi.server.http.disconnect import ClientGone, until_disconnect
from okibi.server.http.errors import as_api_error
from okibi.server.http.reply_format import Choice, Event, ReplyFormat
from okibi.server.http.run import Delta, Run

_log = logging.getLogger("okibi.http")
_encode = msgspec.json.Encoder().encode
_LINE_ENDS = tuple((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\x85\u2028\u2029")


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
            async for event in self._events():
                await _send_event(send, event)
        except (asyncio.CancelledError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - the client must learn of any failure
            answer = as_api_error(error)
            if answer.code == "internal_error":
                _log.exception("a stream failed")
            await _send_event(send, self._reply.failure(answer))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncIterator[Event]:
        num_choices = len(self._run.call.requests)
        for index in range(num_choices):
            for event in self._reply.opening(index):
                yield event
        num_open = num_choices
        async for delta in self._run.deltas(self._silence_s):
            num_open -= delta is not None and delta.finish_reason is not None
            for event in self._delta_events(delta, is_last=num_open == 0):
                yield event
        for event in self._reply.closing(self._run.usage):
            yield event

    def _delta_events(self, delta: Delta | None, *, is_last: bool) -> Sequence[Event]:
        if delta is None:
            return self._reply.keep_alive()
        if delta.finish_reason is None:
            return self._reply.delta(delta.index, delta.gained)
        usage = self._run.usage if is_last else None
        return self._reply.ending(delta.index, delta.finish_reason, usage)


def _encode_event(event: Event) -> bytes:
    """An event as it goes over the wire.

    Many clients read streams by lines of text, and take Unicode's own line ends for such; inside a
    JSON string they can be escaped.
    """
    data = event.data.encode() if isinstance(event.data, str) else _encode(event.data)
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return b"data: " + data + b"\n\n"


async def _send_event(send: Send, event: Event) -> None:
    body = _encode_event(event)
    await send({"type": "http.response.body", "body": body, "more_body": True})
