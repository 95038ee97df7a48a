"""Answers of `/v1/completions`, in one piece and as chunks.

Owns shapes only: it is told what was generated and never waits for it.
"""

from collections.abc import Sequence

from okibi.server.http.logprobs import completion_logprobs
from okibi.server.http.reply_format import Choice, Json
from okibi.server.http.run import Usage
from okibi.server.prompt.output_text import PlacedLogprobs, TextDelta
from okibi.server.prompt.token_bytes import TokenBytes


class CompletionFormat:
    """The shapes of one call's answers."""

    def __init__(
        self,
        call_id: str,
        model: str,
        created_s: int,
        token_bytes: TokenBytes,
        *,
        with_logprobs: bool,
    ) -> None:
        self._head: Json = {
            "id": call_id,
            "object": "text_completion",
            "created": created_s,
            "model": model,
        }
        self._token_bytes = token_bytes
        self._with_logprobs = with_logprobs

    def opening(self, index: int) -> None:
        return None

    def delta(self, index: int, gained: TextDelta) -> Json:
        return self._frame(index, gained.text, gained.logprobs, None)

    def ending(self, index: int, finish_reason: str) -> Json:
        return self._frame(index, "", (), finish_reason)

    def usage(self, usage: Usage) -> Json:
        return {**self._head, "choices": [], "usage": usage.as_json()}

    def keep_alive(self) -> Json:
        return self._frame(0, "", (), None)

    def answer(self, choices: list[Choice], usage: Usage) -> Json:
        shown = [
            self._choice(choice.index, "".join(choice.texts), choice.logprobs, choice.finish_reason)
            for choice in choices
        ]
        return {**self._head, "choices": shown, "usage": usage.as_json()}

    def _frame(
        self, index: int, text: str, placed: Sequence[PlacedLogprobs], finish_reason: str | None
    ) -> Json:
        return {**self._head, "choices": [self._choice(index, text, placed, finish_reason)]}

    def _choice(
        self, index: int, text: str, placed: Sequence[PlacedLogprobs], finish_reason: str | None
    ) -> Json:
        logprobs = completion_logprobs(placed, self._token_bytes) if self._with_logprobs else None
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
