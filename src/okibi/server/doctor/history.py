"""Prompts that a session sent before, to compare the next one with.

Owns a bounded memory of token ids. A prompt that continues an earlier one takes its place, so a
session's plain turns are one entry, and forks and subagents are one each. Sessions of different
cache salts never meet: where two prompts part says something about both. Never consulted for
serving, so forgetting costs nothing but an explanation.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from okibi.core.token_source import PackedTokens

DEFAULT_MAX_TOKENS = 8_000_000
MAX_PROMPTS_PER_SESSION = 32
_ENTRY_TOKENS = 256


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Whose prompts may be compared. `name` is empty for clients that name no session."""

    cache_salt: str
    name: str


@dataclass(frozen=True, slots=True)
class EarlierPrompt:
    """A prompt as it was served, and the call that sent it."""

    call_id: str
    tokens: PackedTokens


class PromptHistory:
    """The latest prompts of the latest sessions. Safe to use from several threads."""

    def __init__(self, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._num_tokens = 0
        self._sessions: OrderedDict[SessionKey, list[EarlierPrompt]] = OrderedDict()
        self._lock = Lock()

    def remember(self, session: SessionKey, prompt: EarlierPrompt) -> None:
        """Keep a prompt that the engine has accepted."""
        if _cost(prompt) > self._max_tokens:
            return
        with self._lock:
            known = self._sessions.setdefault(session, [])
            self._sessions.move_to_end(session)
            for earlier in [entry for entry in known if _continues(prompt, entry)]:
                self._drop(known, earlier)
            known.append(prompt)
            self._num_tokens += _cost(prompt)
            if len(known) > MAX_PROMPTS_PER_SESSION:
                self._drop(known, known[0])
            while self._num_tokens > self._max_tokens:
                self._drop_oldest()

    def closest(
        self, session: SessionKey, tokens: PackedTokens
    ) -> tuple[EarlierPrompt, int] | None:
        """The session's prompt that shares most leading tokens, and how many; the latest if tied.

        None if no prompt of the session is remembered.
        """
        with self._lock:
            known = list(self._sessions.get(session, ()))
        shared = [(entry.tokens.common_prefix(tokens), i) for i, entry in enumerate(known)]
        if not shared:
            return None
        num_shared, index = max(shared)
        return known[index], num_shared

    def _drop_oldest(self) -> None:
        session, known = next(iter(self._sessions.items()))
        self._drop(known, known[0])
        if not known:
            del self._sessions[session]

    def _drop(self, known: list[EarlierPrompt], prompt: EarlierPrompt) -> None:
        known.remove(prompt)
        self._num_tokens -= _cost(prompt)


def _continues(prompt: EarlierPrompt, earlier: EarlierPrompt) -> bool:
    return prompt.tokens.packed.startswith(earlier.tokens.packed)


def _cost(prompt: EarlierPrompt) -> int:
    return len(prompt.tokens) + _ENTRY_TOKENS
