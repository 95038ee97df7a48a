"""Log-probabilities in the two shapes of the OpenAI API.

Minus infinity, which JSON cannot say, becomes -9999.0, as it does at OpenAI.
"""

from collections.abc import Sequence
from typing import Any

from okibi.server.prompt.output_text import PlacedLogprobs
from okibi.server.prompt.token_bytes import TokenBytes

_FLOOR = -9999.0


def chat_logprobs(placed: Sequence[PlacedLogprobs], token_bytes: TokenBytes) -> dict[str, Any]:
    """`logprobs` of a chat choice: one object a token."""
    content = []
    for item in placed:
        entry = item.entry
        shown = _shown(entry.token_id, entry.logprob, token_bytes)
        shown["top_logprobs"] = [_shown(*pair, token_bytes) for pair in entry.top]
        content.append(shown)
    return {"content": content, "refusal": None}


def completion_logprobs(
    placed: Sequence[PlacedLogprobs], token_bytes: TokenBytes
) -> dict[str, Any]:
    """`logprobs` of a completion choice: parallel lists."""
    return {
        "tokens": [_text(item.entry.token_id, token_bytes) for item in placed],
        "token_logprobs": [_finite(item.entry.logprob) for item in placed],
        "top_logprobs": [_top(item, token_bytes) for item in placed],
        "text_offset": [item.text_offset for item in placed],
    }


def _shown(token_id: int, logprob: float, token_bytes: TokenBytes) -> dict[str, Any]:
    spelled = token_bytes.of(token_id)
    return {
        "token": spelled.decode("utf-8", "replace"),
        "logprob": _finite(logprob),
        "bytes": list(spelled),
    }


def _top(item: PlacedLogprobs, token_bytes: TokenBytes) -> dict[str, float]:
    """By text; the chosen token is always there."""
    pairs = [(item.entry.token_id, item.entry.logprob), *item.entry.top]
    return {_text(token_id, token_bytes): _finite(logprob) for token_id, logprob in pairs}


def _text(token_id: int, token_bytes: TokenBytes) -> str:
    return token_bytes.of(token_id).decode("utf-8", "replace")


def _finite(logprob: float) -> float:
    return max(logprob, _FLOOR) if logprob == logprob else _FLOOR  # noqa: PLR0124 - NaN
