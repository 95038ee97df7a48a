"""Which conversation a request belongs to, from what agents send anyway.

A hint and nothing more: it never authorises, and a wrong one costs a little hashing. The names
change between client versions, so they stand in one table.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from starlette.datastructures import Headers

from okibi.server.prompt.messages import ChatMessage

_HEADERS = (
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "thread-id",
    "session-id",
    "session_id",
    "x-session-id",
    "x-dynamo-session-id",
    "x-correlation-id",
)
_MAX_CHARS = 256


def conversation_hint(headers: Headers, prompt_cache_key: str | None) -> str:
    """The name of the conversation; empty if the client does not say."""
    for name in _HEADERS:
        if value := headers.get(name):
            return value[:_MAX_CHARS]
    return (prompt_cache_key or "")[:_MAX_CHARS]


def opening_name(messages: Sequence[ChatMessage]) -> str:
    """A name for a conversation without one: what it opens with, up to the first user message."""
    is_user = [message.role == "user" for message in messages]
    opening = messages[: is_user.index(True) + 1] if any(is_user) else messages
    return "opening-" + blake2b(msgspec.json.encode(opening), digest_size=16).hexdigest()
