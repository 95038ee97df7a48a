"""Answers of `/v1/chat/completions`, in one piece and as chunks.

Owns shapes only: it is told what was generated and never waits for it.
"""

from okibi.server.http.logprobs import chat_logprobs
from okibi.server.http.reply_format import Choice, Json
from okibi.server.http.run import Usage
from okibi.server.prompt.output_text import TextDelta
from okibi.server.prompt.token_bytes import TokenBytes


class ChatFormat:
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
        self._head: Json = {"id": call_id, "created": created_s, "model": model}
        self._token_bytes = token_bytes
        self._with_logprobs = with_logprobs

    def opening(self, index: int) -> Json:
        return self._chunk(index, {"role": "assistant", "content": ""})

    def delta(self, index: int, gained: TextDelta) -> Json:
        return self._chunk(index, {"content": gained.text}, gained)

    def ending(self, index: int, finish_reason: str) -> Json:
        return self._chunk(index, {}, finish_reason=finish_reason)

    def usage(self, usage: Usage) -> Json:
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": usage.as_json(),
        }

    def keep_alive(self) -> Json:
        return self._chunk(0, {})

    def answer(self, choices: list[Choice], usage: Usage) -> Json:
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [self._choice(choice) for choice in choices],
            "usage": usage.as_json(),
        }

    def _choice(self, choice: Choice) -> Json:
        logprobs = None
        if self._with_logprobs:
            logprobs = chat_logprobs(choice.logprobs, self._token_bytes)
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": "".join(choice.texts), "refusal": None},
            "logprobs": logprobs,
            "finish_reason": choice.finish_reason,
        }

    def _chunk(
        self,
        index: int,
        delta: Json,
        gained: TextDelta | None = None,
        finish_reason: str | None = None,
    ) -> Json:
        logprobs = None
        if self._with_logprobs and gained is not None:
            logprobs = chat_logprobs(gained.logprobs, self._token_bytes)
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
