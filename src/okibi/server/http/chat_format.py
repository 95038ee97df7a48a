"""Answers of `/v1/chat/completions`, in one piece and as chunks.

Owns shapes only: it is told what was generated and never waits for it.
"""

from collections.abc import Sequence

from okibi.server.http.errors import ApiError
from okibi.server.http.logprobs import chat_logprobs
from okibi.server.http.openai_reply import OpenAIReply
from okibi.server.http.reply_format import Choice, Event, Json
from okibi.server.http.run import Usage
from okibi.server.prompt.output_text import PlacedLogprobs, TextDelta

_CHUNK = "chat.completion.chunk"


class ChatFormat:
    """The shapes of one call's answers."""

    def __init__(self, reply: OpenAIReply) -> None:
        self._reply = reply

    def opening(self, index: int) -> Sequence[Event]:
        return (Event(self._chunk(index, {"role": "assistant", "content": ""})),)

    def delta(self, index: int, gained: TextDelta) -> Sequence[Event]:
        return (Event(self._chunk(index, {"content": gained.text}, gained.logprobs)),)

    def ending(self, index: int, finish_reason: str, usage: Usage | None) -> Sequence[Event]:
        return self._reply.ending(self._chunk(index, {}, finish_reason=finish_reason), usage)

    def closing(self, usage: Usage) -> Sequence[Event]:
        return self._reply.closing(_CHUNK, usage)

    def keep_alive(self) -> Sequence[Event]:
        return (Event(self._chunk(0, {})),)

    def failure(self, error: ApiError) -> Event:
        return self._reply.failure(error)

    def answer(self, choices: Sequence[Choice], usage: Usage) -> Json:
        shown = [self._choice(choice) for choice in choices]
        return {**self._reply.object("chat.completion", shown), "usage": usage.as_json()}

    def _choice(self, choice: Choice) -> Json:
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": "".join(choice.texts), "refusal": None},
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": choice.finish_reason,
        }

    def _chunk(
        self,
        index: int,
        delta: Json,
        placed: Sequence[PlacedLogprobs] | None = None,
        finish_reason: str | None = None,
    ) -> Json:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": self._logprobs(placed),
            "finish_reason": finish_reason,
        }
        return self._reply.object(_CHUNK, [choice])

    def _logprobs(self, placed: Sequence[PlacedLogprobs] | None) -> Json | None:
        if placed is None or not self._reply.with_logprobs:
            return None
        return chat_logprobs(placed, self._reply.token_bytes)
