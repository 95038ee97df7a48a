"""The text of one choice as it grows: detokenised, cut at stop strings, with its log-probabilities.

Streaming and answering in one piece both read what this yields, so they cannot differ. The
log-probabilities of a token go out with the last character of its text, so that no part of a stop
string leaves that way either.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from okibi.core.output import TokenLogprobs
from okibi.server.prompt.detokenizer import Detokenizer
from okibi.server.prompt.stop_strings import StopStrings
from okibi.server.prompt.token_bytes import TokenBytes


@dataclass(frozen=True, slots=True)
class PlacedLogprobs:
    """Log-probabilities of a token whose text begins at character `text_offset`."""

    entry: TokenLogprobs
    text_offset: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What may go out now."""

    text: str = ""
    logprobs: tuple[PlacedLogprobs, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.logprobs)


class OutputText:
    """One choice's text."""

    def __init__(
        self,
        token_bytes: TokenBytes,
        *,
        stops: Sequence[str],
        min_tokens: int,
        end_ids: frozenset[int],
    ) -> None:
        """`end_ids` are tokens that end a generation and are no part of its text."""
        self._detokenizer = Detokenizer(token_bytes)
        self._stops = StopStrings(stops)
        self._min_tokens = min_tokens
        self._end_ids = end_ids
        self._pending: deque[tuple[PlacedLogprobs, int]] = deque()
        self._num_decoded = 0
        self._num_released = 0
        self.num_tokens = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.is_stopped

    def push(
        self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs], *, is_end: bool
    ) -> TextDelta:
        """Take tokens; `is_end` if the last of them ended the generation by being what it is.

        Tokens behind a stop string are not counted.
        """
        out: list[str] = []
        for index, token_id in enumerate(token_ids):
            self.num_tokens += 1
            is_last = index == len(token_ids) - 1
            start = self._num_decoded
            text = (
                "" if is_end and is_last and token_id in self._end_ids else self._decode(token_id)
            )
            if index < len(logprobs):
                placed = PlacedLogprobs(logprobs[index], start)
                self._pending.append((placed, self._num_decoded))
            out.append(self._filter(text))
            if self._stops.is_stopped:
                break
        return self._release("".join(out))

    def finish(self) -> TextDelta:
        """The end of the text. Call once, after the last `push`."""
        if self._stops.is_stopped:
            kept = [
                placed for placed, _ in self._pending if placed.text_offset < self._num_released
            ]
            self._pending.clear()
            return TextDelta("", tuple(kept))
        tail = self._stops.push(self._detokenizer.finish())
        if not self._stops.is_stopped:
            tail += self._stops.release()
        placed = tuple(placed for placed, _ in self._pending)
        self._pending.clear()
        return TextDelta(tail, placed)

    def _decode(self, token_id: int) -> str:
        text = self._detokenizer.push(token_id)
        self._num_decoded += len(text)
        return text

    def _filter(self, text: str) -> str:
        if self.num_tokens <= self._min_tokens:
            return text
        return self._stops.push(text)

    def _release(self, text: str) -> TextDelta:
        self._num_released += len(text)
        ready = []
        while self._pending and self._pending[0][1] <= self._num_released:
            ready.append(self._pending.popleft()[0])
        return TextDelta(text, tuple(ready))
