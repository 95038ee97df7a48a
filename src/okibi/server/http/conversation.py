"""Which conversation a request belongs to, from what agents send anyway.

A hint and nothing more: it never authorises, and a wrong one costs a little hashing. The names
change between client versions, so they stand in one table.
"""

from starlette.datastructures import Headers

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
