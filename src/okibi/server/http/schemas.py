"""What requests may contain: types, not meanings.

msgspec decodes and checks bodies against these; fields unknown to okibi are ignored, a wrong type
is refused with the field's path. None means "not given": clients that write every option send null
for those that nobody set.
"""

from typing import Any, TypeVar

import msgspec

from okibi.server.http.errors import ApiError, invalid
from okibi.server.prompt.messages import ChatMessage

T = TypeVar("T")


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    include_usage: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    type: str


class GenerationFields(msgspec.Struct, frozen=True, kw_only=True):
    """Common to all generating endpoints of the OpenAI API, vLLM's extensions included.

    `cache_diagnostics` is okibi's own: it asks where the prompt parts from the session's earlier
    ones.
    """

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    priority: int | None = None
    cache_salt: str | None = None
    prompt_cache_key: str | None = None
    response_format: ResponseFormat | None = None
    cache_diagnostics: bool | None = None


class ChatBody(GenerationFields, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionBody(GenerationFields, frozen=True, kw_only=True):
    """`POST /v1/completions`. A prompt is text or token ids, or a list of either."""

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool | None = None


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /tokenize`: a prompt, or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class DetokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /detokenize`."""

    model: str | None = None
    tokens: list[int]


def decode_body(body: bytes, schema: type[T]) -> T:
    """Raises `ApiError` 400 that names the field."""
    try:
        return msgspec.json.decode(body, type=schema)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise invalid(str(error), _field(message, path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.", code="invalid_json") from None


def _field(message: str, path: str) -> str | None:
    """`.messages[0].role` becomes `messages[0].role`; a missing field is named in the message."""
    parts = [path.strip(".`")]
    if "missing required field" in message:
        parts.append(message.split("`")[1])
    return ".".join(part for part in parts if part) or None
