"""What an API's answers look like, apart from how they are produced.

A generating endpoint brings one of these; `replies` drives it. Values returned are ready for JSON.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

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


class ReplyFormat(Protocol):
    """The answers to one call."""

    def opening(self, index: int) -> Json | None:
        """The first frame of a choice, if the API has one."""
        ...

    def delta(self, index: int, gained: TextDelta) -> Json:
        """A frame with what a choice gained."""
        ...

    def ending(self, index: int, finish_reason: str) -> Json:
        """The last frame of a choice."""
        ...

    def usage(self, usage: Usage) -> Json:
        """The frame after all choices."""
        ...

    def keep_alive(self) -> Json | None:
        """A frame that says nothing, if the API has one."""
        ...

    def answer(self, choices: list[Choice], usage: Usage) -> Json:
        """The whole answer in one piece."""
        ...
