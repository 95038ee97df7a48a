"""Answers of `/v1/completions`, in one piece and as chunks.

Owns shapes only: it is told what was generated and never waits for it.
"""

from collections.abc import Sequence

from okibi.server.http.errors import ApiError
from okibi.server.http.logprobs import completion_logprobs
from okibi.server.http.openai_reply import OpenAIReply
from okibi.server.http.reply_format import Choice, Event, Json
from okibi.server.http.run import Usage
from okibi.server.prompt.output_text import PlacedLogprobs, TextDelta

_KIND = "text_completion"


class CompletionFormat:
    """The shapes of one call's answers."""

    def __init__(self, reply: OpenAIReply) -> None:
        self._reply = reply

    def opening(self, index: int) -> Sequence[Event]:
        return ()

    def delta(self, index: int, gained: TextDelta) -> Sequence[Event]:
        return (Event(self._frame(index, gained.text, gained.logprobs)),)

    def ending(self, index: int, finish_reason: str, usage: Usage | None) -> Sequence[Event]:
        return self._reply.ending(self._frame(index, "", (), finish_reason), usage)

    def closing(self, usage: Usage) -> Sequence[Event]:
        return self._reply.closing(_KIND, usage)

    def keep_alive(self) -> Sequence[Event]:
        return (Event(self._frame(0, "", ())),)

    def failure(self, error: ApiError) -> Event:
        return self._reply.failure(error)

    def answer(self, choices: Sequence[Choice], usage: Usage) -> Json:
        shown = [
            self._choice(choice.index, "".join(choice.texts), choice.logprobs, choice.finish_reason)
            for choice in choices
        ]
        return {**self._reply.object(_KIND, shown), "usage": usage.as_json()}

    def _frame(
        self,
        index: int,
        text: str,
        placed: Sequence[PlacedLogprobs],
        finish_reason: str | None = None,
    ) -> Json:
        return self._reply.object(_KIND, [self._choice(index, text, placed, finish_reason)])

    def _choice(
        self, index: int, text: str, placed: Sequence[PlacedLogprobs], finish_reason: str | None
    ) -> Json:
        reply = self._reply
        logprobs = completion_logprobs(placed, reply.token_bytes) if reply.with_logprobs else None
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
