"""Messages as clients send them become messages as templates want them."""

from typing import Any

import pytest

from okibi.server.prompt.messages import (
    ChatMessage,
    ContentPart,
    InvalidPrompt,
    template_messages,
    without_late_system,
)


def test_contents_become_strings():
    parts = [ContentPart("text", "a"), ContentPart("input_text", "b")]
    shaped = template_messages([ChatMessage("user", parts), ChatMessage("assistant")])
    assert [message["content"] for message in shaped] == ["ab", ""]


def test_only_the_leading_instructions_are_joined():
    shaped = template_messages(
        [
            ChatMessage("system", "one"),
            ChatMessage("developer", "two"),
            ChatMessage("user", "u"),
            ChatMessage("developer", "three"),
        ]
    )
    assert [(m["role"], m["content"]) for m in shaped] == [
        ("system", "one\n\ntwo"),
        ("user", "u"),
        ("system", "three"),
    ]


@pytest.mark.parametrize(
    "names", [{"reasoning": "why"}, {"reasoning_content": "why"},
              {"reasoning": "why", "reasoning_content": "why"}]
)  # fmt: skip
def test_reasoning_has_two_names_and_one_meaning(names: dict[str, Any]):
    """user-pain A06."""
    (shaped,) = template_messages([ChatMessage("assistant", "a", **names)])
    assert shaped["reasoning"] == shaped["reasoning_content"] == "why"


def test_tool_arguments_become_objects_where_they_are_json():
    def call(arguments: Any) -> dict[str, Any]:
        return {"id": "1", "function": {"name": "f", "arguments": arguments}}

    calls = [call('{"a": 1}'), call("{cut"), call({"b": 2}), {"id": "2"}]
    (shaped,) = template_messages([ChatMessage("assistant", None, tool_calls=calls)])
    assert shaped["tool_calls"] == [call({"a": 1}), call("{cut"), call({"b": 2}), {"id": "2"}]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([ChatMessage("user", "a"), ChatMessage("wizard", "b")], "messages[1].role"),
        ([ChatMessage("user", [ContentPart("text", "a"), ContentPart("image_url")])],
         "messages[0].content[1]"),
    ],
)  # fmt: skip
def test_refusals_name_the_place(messages: list[ChatMessage], param: str):
    with pytest.raises(InvalidPrompt) as caught:
        template_messages(messages)
    assert caught.value.param == param


def test_late_instructions_join_the_user_before_or_after_them():
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u1"},
        {"role": "system", "content": "r1"},
        {"role": "assistant", "content": "a"},
        {"role": "system", "content": "r2"},
        {"role": "user", "content": "u2"},
    ]
    assert without_late_system(messages) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u1\n\n[system] r1"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "[system] r2\n\nu2"},
    ]
    assert without_late_system(messages[:2]) is None
