"""Earlier prompts of a session: which is closest, and how many are kept."""

from okibi.core.token_source import PackedTokens
from okibi.server.doctor.history import (
    MAX_PROMPTS_PER_SESSION,
    EarlierPrompt,
    PromptHistory,
    SessionKey,
)

SESSION = SessionKey("", "s")


def prompt(call_id: str, *ids: int) -> EarlierPrompt:
    return EarlierPrompt(call_id, PackedTokens.of(ids))


def closest(history: PromptHistory, session: SessionKey, *ids: int) -> tuple[str, int] | None:
    found = history.closest(session, PackedTokens.of(ids))
    return None if found is None else (found[0].call_id, found[1])


def test_the_closest_is_the_one_with_the_longest_common_beginning() -> None:
    history = PromptHistory()
    history.remember(SESSION, prompt("near", 1, 2, 3, 4))
    history.remember(SESSION, prompt("far", 1, 9, 9, 9))
    assert closest(history, SESSION, 1, 2, 3, 7) == ("near", 3)
    assert closest(history, SESSION, 1, 9) == ("far", 2)
    assert closest(history, SESSION, 1, 5) == ("far", 1)  # tied: the later one


def test_sessions_and_salts_do_not_see_each_other() -> None:
    history = PromptHistory()
    history.remember(SESSION, prompt("mine", 1, 2))
    assert closest(history, SessionKey("", "other"), 1, 2) is None
    assert closest(history, SessionKey("salt", "s"), 1, 2) is None


def test_a_continuation_takes_the_place_of_what_it_continues() -> None:
    history = PromptHistory(max_tokens=256 + 4)
    history.remember(SESSION, prompt("first", 1, 2))
    history.remember(SESSION, prompt("second", 1, 2, 3, 4))
    assert closest(history, SESSION, 1, 2) == ("second", 2)


def test_the_oldest_sessions_are_forgotten_first() -> None:
    history = PromptHistory(max_tokens=2 * (256 + 2))
    names = [SessionKey("", name) for name in ("a", "b", "c")]
    history.remember(names[0], prompt("a", 1, 2))
    history.remember(names[1], prompt("b", 1, 2))
    history.remember(names[0], prompt("a2", 1, 2))
    history.remember(names[2], prompt("c", 1, 2))
    known = [closest(history, name, 1, 2) for name in names]
    assert known == [("a2", 2), None, ("c", 2)]


def test_a_session_keeps_a_bounded_number_of_branches() -> None:
    history = PromptHistory()
    for branch in range(MAX_PROMPTS_PER_SESSION + 1):
        history.remember(SESSION, prompt(str(branch), 7, branch))
    assert closest(history, SESSION, 7, 0) == (str(MAX_PROMPTS_PER_SESSION), 1)
    assert closest(history, SESSION, 7, 1) == ("1", 2)


def test_a_prompt_larger_than_the_memory_changes_nothing() -> None:
    history = PromptHistory(max_tokens=300)
    history.remember(SESSION, prompt("small", 1))
    history.remember(SESSION, prompt("large", *range(60)))
    assert closest(history, SESSION, 0, 1) == ("small", 0)
