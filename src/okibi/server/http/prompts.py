"""Prompts from what requests hold: messages, a text, or token ids.

Owns the refusals in the API's own errors, for every endpoint alike; the making itself is
`server.prompt`'s. Takes as long as the input is large, so it belongs on a worker thread.
"""

from collections.abc import Sequence
from typing import Any

from okibi.core.token_source import PackedTokens
from okibi.server.engine_protocol import Ready
from okibi.server.http.errors import ApiError, context_overflow, invalid
from okibi.server.http.schemas import ChatBody, TokenizeBody
from okibi.server.http.services import Services
from okibi.server.prompt.text_encoder import TooManyTokens

_RESERVED_OPTIONS = ("messages", "tools", "add_generation_prompt")


def render_chat(
    fields: ChatBody | TokenizeBody, services: Services, *, add_generation_prompt: bool
) -> PackedTokens:
    """The prompt of a conversation.

    Raises:
        ApiError: more tokens than could ever be served.
        InvalidPrompt: the messages cannot be rendered.
    """
    options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt}
    if fields.tools:
        options["tools"] = fields.tools
    for name, value in (fields.chat_template_kwargs or {}).items():
        if name in _RESERVED_OPTIONS:
            raise invalid(f"chat_template_kwargs may not set {name!r}", "chat_template_kwargs")
        options[name] = value
    try:
        return services.prompts.from_messages(
            fields.messages or [], options, max_tokens=services.counting_limit
        )
    except TooManyTokens as error:
        raise _overflow(error, services, "messages") from None


def encode_text(text: str, services: Services, *, add_special_tokens: bool) -> PackedTokens:
    """The prompt that is this text.

    Raises:
        ApiError: more tokens than could ever be served.
        InvalidPrompt: it is no Unicode text.
    """
    try:
        return services.prompts.from_text(
            text, add_special_tokens=add_special_tokens, max_tokens=services.counting_limit
        )
    except TooManyTokens as error:
        raise _overflow(error, services, "prompt") from None


def pack_ids(token_ids: Sequence[int], limits: Ready, field: str) -> PackedTokens:
    """Raises `ApiError` 400 if there are too many, or one is not in the vocabulary."""
    if len(token_ids) > limits.max_model_len:
        raise context_overflow(
            len(token_ids), limits.max_model_len, f"your {field} resulted in", field
        )
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < limits.vocab_size):
        raise invalid(f"{field} must hold token ids from 0 to {limits.vocab_size - 1}", field)
    return PackedTokens.of(token_ids)


def _overflow(error: TooManyTokens, services: Services, field: str) -> ApiError:
    """The answer to a prompt so long that counting it was given up."""
    return context_overflow(
        error.num_tokens,
        services.engine.limits.max_model_len,
        f"your {field} resulted in at least",
        field,
    )
