"""Requests' text to prompts: template, tokenise, pack.

The front of `server.prompt`: everything the HTTP layer needs of a model's text goes through here.
Its calls take as long as their input is large, so they belong on a worker thread; all are safe to
use from several.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from okibi.core.clock import Clock
from okibi.core.token_source import PackedTokens
from okibi.server.prompt.assets import TextAssets
from okibi.server.prompt.chat_template import ChatTemplate, TemplateRefusal
from okibi.server.prompt.messages import (
    ChatMessage,
    InvalidPrompt,
    template_messages,
    without_late_system,
)
from okibi.server.prompt.piece_memo import PieceMemo
from okibi.server.prompt.text_encoder import TextEncoder
from okibi.server.prompt.token_bytes import TokenBytes


class PromptMaker:
    """Makes prompts for one model."""

    def __init__(self, assets: TextAssets, clock: Clock, memo: PieceMemo | None = None) -> None:
        """Raises `ModelError` if the template or the tokenizer's decoder cannot be used."""
        self._tokenizer = assets.tokenizer
        self._encoder = TextEncoder(assets.tokenizer, memo or PieceMemo())
        self.token_bytes = TokenBytes(assets.tokenizer)
        self._template = None
        if assets.chat_template is not None:
            self._template = ChatTemplate(assets.chat_template, assets.special_tokens, clock)

    def from_messages(
        self, messages: Sequence[ChatMessage], options: Mapping[str, Any], *, max_tokens: int
    ) -> PackedTokens:
        """The prompt that asks for the next turn of a conversation.

        Args:
            options: What the template gets besides (`tools`, `add_generation_prompt`, ...).
            max_tokens: Where tokenising gives up.

        Raises:
            InvalidPrompt: the messages are wrong, or the template refuses them.
            TooManyTokens: there are more than `max_tokens`.
        """
        text = self.render(messages, options)
        return self._encode(text, "messages", add_special_tokens=False, max_tokens=max_tokens)

    def render(self, messages: Sequence[ChatMessage], options: Mapping[str, Any]) -> str:
        """The conversation as text. Raises `InvalidPrompt`."""
        if self._template is None:
            raise InvalidPrompt(
                "this model has no chat template; use /v1/completions with a prompt", "messages"
            )
        shaped = template_messages(messages)
        try:
            return self._template.render(shaped, options)
        except TemplateRefusal as refusal:
            return self._render_without_late_system(self._template, shaped, options, refusal)

    def from_text(self, text: str, *, add_special_tokens: bool, max_tokens: int) -> PackedTokens:
        """Tokenise `text`.

        Raises:
            InvalidPrompt: it is not Unicode text, or cannot be cut.
            TooManyTokens: there are more than `max_tokens`.
        """
        return self._encode(
            text, "prompt", add_special_tokens=add_special_tokens, max_tokens=max_tokens
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, special tokens included, as the tokenizer writes it."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)

    def token_strings(self, prompt: PackedTokens) -> list[str]:
        """The vocabulary's entries for a prompt's tokens."""
        ids = array("i", prompt.packed)
        return [self._tokenizer.id_to_token(token_id) or "" for token_id in ids]

    def _encode(
        self, text: str, field: str, *, add_special_tokens: bool, max_tokens: int
    ) -> PackedTokens:
        """Tokenise `text`; a refusal names `field`."""
        if _has_surrogate(text):
            raise InvalidPrompt("the text contains half of a surrogate pair", field)
        try:
            packed = self._encoder.encode(
                text, add_special_tokens=add_special_tokens, max_tokens=max_tokens
            )
        except InvalidPrompt as error:
            raise InvalidPrompt(str(error), field) from None
        return PackedTokens(packed)

    @staticmethod
    def _render_without_late_system(
        template: ChatTemplate,
        shaped: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        refusal: TemplateRefusal,
    ) -> str:
        milder = without_late_system(shaped)
        if milder is None:
            raise InvalidPrompt(str(refusal), "messages") from refusal
        try:
            return template.render(milder, options)
        except TemplateRefusal:
            raise InvalidPrompt(str(refusal), "messages") from refusal


def _has_surrogate(text: str) -> bool:
    """Whether `text` cannot be encoded: JSON escapes may spell halves of a pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
