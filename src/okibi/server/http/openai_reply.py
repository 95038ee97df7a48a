"""What chat and text completions of the OpenAI API have in common on the way out.

Owns the head of every object, the places where usage goes, and how a stream ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.server.http.errors import ApiError
from okibi.server.http.reply_format import Event, Json
from okibi.server.http.run import Usage
from okibi.server.prompt.token_bytes import TokenBytes

_DONE = Event("[DONE]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIReply:
    """One call's part of its answers.

    Attributes:
        include_usage: True for a usage frame of its own at the end of a stream, None for usage
            on the last frame there is anyway, False for none.
    """

    call_id: str
    model: str
    created_s: int
    token_bytes: TokenBytes
    with_logprobs: bool
    include_usage: bool | None

    def object(self, kind: str, choices: Sequence[Json]) -> Json:
        """An answer or a frame of it."""
        return {
            "id": self.call_id,
            "object": kind,
            "created": self.created_s,
            "model": self.model,
            "choices": choices,
        }

    def ending(self, frame: Json, usage: Usage | None) -> Sequence[Event]:
        """The last frame of a choice."""
        if usage is not None and self.include_usage is None:
            frame["usage"] = usage.as_json()
        return (Event(frame),)

    def closing(self, kind: str, usage: Usage) -> Sequence[Event]:
        """What ends a stream."""
        if not self.include_usage:
            return (_DONE,)
        return Event({**self.object(kind, ()), "usage": usage.as_json()}), _DONE

    def failure(self, error: ApiError) -> Event:
        """An error instead of the rest, and no `[DONE]`."""
        return Event(error.as_json())
