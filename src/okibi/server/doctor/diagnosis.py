"""What a request is told about its cache miss, if it asks.

Owns the comparison of a prompt with the session's closest earlier one, and the way from a token's
index back to the message it stands in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from okibi.core.token_source import PackedTokens
from okibi.server.doctor.history import PromptHistory, SessionKey
from okibi.server.prompt.messages import ChatMessage, InvalidPrompt

RenderPrefix = Callable[[Sequence[ChatMessage]], PackedTokens]
"""Token ids of the first messages of a conversation, without a generation prompt.

Raises `InvalidPrompt` where the template does not take a conversation that ends there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where a prompt parts from an earlier one.

    `message_index` and `role` are None outside of all messages, and for prompts without messages.
    """

    token_index: int
    message_index: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A prompt beside the closest earlier one of its session.

    Attributes:
        compared_with: The earlier call; None if no prompt of the session is remembered.
        num_shared_tokens: Leading tokens that are the same in both.
        divergence: None if one of the two is the other's beginning.
    """

    compared_with: str | None = None
    num_shared_tokens: int = 0
    divergence: Divergence | None = None

    def as_json(self) -> dict[str, object]:
        parting = self.divergence
        return {
            "compared_with": self.compared_with,
            "shared_tokens": self.num_shared_tokens,
            "divergence": None
            if parting is None
            else {
                "token_index": parting.token_index,
                "message_index": parting.message_index,
                "role": parting.role,
            },
        }


def diagnose(
    history: PromptHistory,
    session: SessionKey,
    tokens: PackedTokens,
    messages: Sequence[ChatMessage] = (),
    render_prefix: RenderPrefix | None = None,
) -> Diagnosis:
    """Compare a prompt with what its session sent before.

    Args:
        messages, render_prefix: What the prompt was made of, for prompts made of messages.
    """
    closest = history.closest(session, tokens)
    if closest is None:
        return Diagnosis()
    earlier, num_shared = closest
    divergence = None
    if num_shared < min(len(tokens), len(earlier.tokens)):
        index = None
        if render_prefix is not None:
            index = find_message(messages, tokens, num_shared, render_prefix)
        role = None if index is None else messages[index].role
        divergence = Divergence(token_index=num_shared, message_index=index, role=role)
    return Diagnosis(
        compared_with=earlier.call_id, num_shared_tokens=num_shared, divergence=divergence
    )


def find_message(
    messages: Sequence[ChatMessage],
    tokens: PackedTokens,
    token_index: int,
    render_prefix: RenderPrefix,
) -> int | None:
    """The message in which token `token_index` of the whole prompt stands.

    It is the last of the shortest run of messages whose own rendering reaches beyond that token.
    Found by bisection, so templates that change an early message because of a late one may be
    answered with the late one. None for tokens behind the last message.
    """

    def reaches(count: int) -> bool:
        for end in range(count, len(messages) + 1):
            try:
                return render_prefix(messages[:end]).common_prefix(tokens) > token_index
            except InvalidPrompt:
                continue
        return False

    low, high = 1, len(messages) + 1
    while low < high:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle + 1
    return low - 1 if low <= len(messages) else None
