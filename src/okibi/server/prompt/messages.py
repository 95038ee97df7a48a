"""Chat messages as clients send them, and as chat templates want them.

Clients differ: content is a string, a list of parts or null; instructions come as `system` or
`developer`, at the start or in the middle; reasoning has two names. Owns that translation and its
refusals. Messages are never reordered: that would void the cached prefix.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_INSTRUCTION_ROLES = ("system", "developer")
_ROLES = (*_INSTRUCTION_ROLES, "user", "assistant", "tool", "function")


class InvalidPrompt(Exception):
    """A prompt that cannot be used; `param` names the offending field of the request."""

    def __init__(self, message: str, param: str | None) -> None:
        super().__init__(message)
        self.param = param


class ContentPart(msgspec.Struct, frozen=True):
    """One part of a message's content; only text can be served."""

    type: str
    text: str | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


def template_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """What the template gets: string contents, `system` for instructions, one leading system.

    Raises:
        InvalidPrompt: no messages, an unknown role, or content that is not text.
    """
    if not messages:
        raise InvalidPrompt("messages must not be empty", "messages")
    shaped = [_shape(message, f"messages[{i}]") for i, message in enumerate(messages)]
    return _merge_leading_system(shaped)


def without_late_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The same with later system messages as marked user text, for templates that refuse them.

    They stay where they are, joined to a neighbouring user message. None if there is none.
    """
    if not any(message["role"] == "system" for message in messages[1:]):
        return None
    out: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        shaped = dict(message)
        if index and shaped["role"] == "system":
            shaped = {"role": "user", "content": f"[system] {shaped['content']}"}
        if out and out[-1]["role"] == shaped["role"] == "user":
            joined = f"{out[-1]['content']}\n\n{shaped['content']}"
            out[-1] = {**out[-1], "content": joined}
        else:
            out.append(shaped)
    return out


def _shape(message: ChatMessage, where: str) -> dict[str, Any]:
    if message.role not in _ROLES:
        known = ", ".join(_ROLES)
        raise InvalidPrompt(
            f"{where}.role must be one of {known}, not {message.role!r}", f"{where}.role"
        )
    role = "system" if message.role in _INSTRUCTION_ROLES else message.role
    shaped: dict[str, Any] = {"role": role, "content": _text(message.content, where)}
    for name in ("name", "tool_call_id"):
        if (value := getattr(message, name)) is not None:
            shaped[name] = value
    reasoning = (
        message.reasoning if message.reasoning_content is None else message.reasoning_content
    )
    if reasoning is not None:
        shaped["reasoning"] = shaped["reasoning_content"] = reasoning
    if message.tool_calls:
        shaped["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return shaped


def _text(content: str | list[ContentPart] | None, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for index, part in enumerate(content):
        if part.text is None:
            field = f"{where}.content[{index}]"
            raise InvalidPrompt(
                f"{field} is of type {part.type!r}; this model takes text only", field
            )
    return "".join(part.text or "" for part in content)


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Templates want arguments as an object, the API has them as a JSON string."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _merge_leading_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    num_leading = 0
    while num_leading < len(messages) and messages[num_leading]["role"] == "system":
        num_leading += 1
    if num_leading < 2:
        return messages
    contents = [message["content"] for message in messages[:num_leading]]
    return [{"role": "system", "content": "\n\n".join(contents)}, *messages[num_leading:]]
