"""From requests' text to prompts: what is refused, and which field the refusal names."""

import json
from typing import Any

import pytest

from okibi.core.clock import VirtualClock
from okibi.server.prompt import text_encoder
from okibi.server.prompt.messages import ChatMessage, InvalidPrompt
from okibi.server.prompt.prompt_maker import PromptMaker
from tests.support.tiny_text import make_assets

TOOL_TEMPLATE = """\
{%- for message in messages %}{{ message.content }}
{%- for call in message.tool_calls or [] %}{{ call.function.arguments | tojson }}{% endfor %}
{%- endfor %}{{ tools | tojson if tools else '' }}"""


def make_prompts() -> PromptMaker:
    return PromptMaker(make_assets(chat_template=TOOL_TEMPLATE), VirtualClock())


def calling(arguments: str) -> list[ChatMessage]:
    call = {"function": {"name": "f", "arguments": arguments}}
    return [ChatMessage("user", "u"), ChatMessage("assistant", None, tool_calls=[call])]


def test_half_a_surrogate_pair_in_arguments_is_refused():
    """The body's own decoder refuses them, but arguments are JSON within JSON."""
    with pytest.raises(InvalidPrompt, match="surrogate") as caught:
        make_prompts().from_messages(calling(json.dumps({"a": "\ud800"})), {}, max_tokens=100)
    assert caught.value.param == "messages"
    with pytest.raises(InvalidPrompt, match="surrogate") as caught:
        make_prompts().from_text("a\ud800", add_special_tokens=True, max_tokens=100)
    assert caught.value.param == "prompt"


def test_options_nested_without_end_are_refused():
    tools: list[Any] = []
    for _ in range(100_000):
        tools = [tools]
    with pytest.raises(InvalidPrompt):
        make_prompts().from_messages([ChatMessage("user", "u")], {"tools": tools}, max_tokens=100)


def test_text_that_cannot_be_cut_is_refused_by_its_field(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_encoder, "MAX_UNCUT_CHARS", 100)
    with pytest.raises(InvalidPrompt, match="101 characters") as caught:
        make_prompts().from_messages([ChatMessage("user", "x" * 101)], {}, max_tokens=1000)
    assert caught.value.param == "messages"
    with pytest.raises(InvalidPrompt, match="101 characters") as caught:
        make_prompts().from_text("x" * 101, add_special_tokens=True, max_tokens=1000)
    assert caught.value.param == "prompt"
