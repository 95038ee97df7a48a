"""What an API's answers look like, apart from how they are produced.

A generating endpoint brings one of these; `replies` drives it. An API's own habits (whether
choices are opened, where usage goes, how a stream ends, the shape of an error) stay behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from okibi.server.http.errors import ApiError
from okibi.server.http.run import Usage
from okibi.server.prompt.output_text import PlacedLogprobs, TextDelta

Json = dict[str, Any]


@dataclass(slots=True)
class Choice:
    """A finished choice."""

    index: int
    finish_reason: str = ""
    texts: list[str] = field(default_factory=list)
    logprobs: list[PlacedLogprobs] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event. An object goes out as JSON, a text as it is."""

    data: Json | str


class ReplyFormat(Protocol):
    """The answers to one call."""

    def opening(self, index: int) -> Sequence[Event]:
        """What goes before a choice's first text."""
        ...

    def delta(self, index: int, gained: TextDelta) -> Sequence[Event]:
        """What a choice gained."""
        ...

    def ending(self, index: int, finish_reason: str, usage: Usage | None) -> Sequence[Event]:
        """The end of a choice. `usage` comes with the last one to end."""
        ...

    def closing(self, usage: Usage) -> Sequence[Event]:
        """What goes after all choices, if none failed."""
        ...

    def keep_alive(self) -> Sequence[Event]:
        """Something that says nothing."""
        ...

    def failure(self, error: ApiError) -> Event:
        """The end of a stream that cannot go on."""
        ...

    def answer(self, choices: Sequence[Choice], usage: Usage) -> Json:
        """The whole answer in one piece."""
        ...
