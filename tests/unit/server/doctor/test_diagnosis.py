"""Where a prompt parts from an earlier one: index, message, role."""

from collections.abc import Sequence

import pytest

from okibi.core.clock import WallClock
from okibi.core.token_source import PackedTokens
from okibi.server.doctor.diagnosis import Diagnosis, Divergence, diagnose, find_message
from okibi.server.doctor.history import EarlierPrompt, PromptHistory, SessionKey
from okibi.server.prompt.messages import ChatMessage
from okibi.server.prompt.prompt_maker import PromptMaker
from tests.support.tiny_text import CHAT_TEMPLATE, STRICT_TEMPLATE, make_assets

SESSION = SessionKey("", "")
DIALOGUE = [
    ChatMessage("system", "be brief and never guess"),
    ChatMessage("user", "what is in the list of tools"),
    ChatMessage("assistant", "the fox and the dog"),
    ChatMessage("user", "call the quick one"),
]


class Renderer:
    """Renders with the tiny tokenizer and counts how often."""

    def __init__(self, template: str | None = None) -> None:
        assets = make_assets(chat_template=template or CHAT_TEMPLATE)
        self._maker = PromptMaker(assets, WallClock())
        self.num_renders = 0

    def prefix(self, messages: Sequence[ChatMessage]) -> PackedTokens:
        self.num_renders += 1
        return self._render(messages, add_generation_prompt=False)

    def prompt(self, messages: Sequence[ChatMessage]) -> PackedTokens:
        return self._render(messages, add_generation_prompt=True)

    def _render(
        self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool
    ) -> PackedTokens:
        options = {"add_generation_prompt": add_generation_prompt}
        return self._maker.from_messages(messages, options, max_tokens=10**6)


def compare(
    earlier: Sequence[ChatMessage], later: Sequence[ChatMessage], renderer: Renderer
) -> Diagnosis:
    history = PromptHistory()
    history.remember(SESSION, EarlierPrompt("first", renderer.prompt(earlier)))
    prompt = renderer.prompt(later)
    return diagnose(history, SESSION, prompt, later, renderer.prefix)


@pytest.mark.parametrize("template", [None, STRICT_TEMPLATE])
@pytest.mark.parametrize("index", range(len(DIALOGUE)))
def test_the_changed_message_is_named(index: int, template: str | None) -> None:
    changed = list(DIALOGUE)
    old = changed[index]
    changed[index] = ChatMessage(old.role, f"{old.content} 12:00:01")
    found = compare(DIALOGUE, changed, Renderer(template))
    assert found.divergence is not None
    assert found.divergence.message_index == index
    assert found.divergence.role == old.role
    assert found.divergence.token_index == found.num_shared_tokens > 0
    assert found.compared_with == "first"


def test_a_prompt_that_only_goes_on_does_not_diverge() -> None:
    renderer = Renderer()
    found = compare(DIALOGUE[:2], DIALOGUE, renderer)
    assert found.divergence is None
    assert found.num_shared_tokens == len(renderer.prompt(DIALOGUE[:2]))


def test_the_first_prompt_of_a_session_has_nothing_to_compare_with() -> None:
    assert diagnose(PromptHistory(), SESSION, PackedTokens.of([1])) == Diagnosis()


def test_a_prompt_without_messages_gets_an_index_alone() -> None:
    history = PromptHistory()
    history.remember(SESSION, EarlierPrompt("first", PackedTokens.of([1, 2, 3])))
    found = diagnose(history, SESSION, PackedTokens.of([1, 2, 4]))
    assert found.divergence == Divergence(token_index=2)
    assert found.as_json() == {
        "compared_with": "first",
        "shared_tokens": 2,
        "divergence": {"token_index": 2, "message_index": None, "role": None},
    }


def test_every_token_finds_its_message_and_the_generation_prompt_has_none() -> None:
    renderer = Renderer()
    prompt = renderer.prompt(DIALOGUE)
    ends = [len(renderer.prefix(DIALOGUE[: count + 1])) for count in range(len(DIALOGUE))]
    for token in range(len(prompt)):
        expected = next((i for i, end in enumerate(ends) if token < end), None)
        assert find_message(DIALOGUE, prompt, token, renderer.prefix) == expected


def test_a_long_conversation_is_not_rendered_for_every_message() -> None:
    renderer = Renderer()
    long = [ChatMessage("user", f"step {i}") for i in range(512)]
    changed = [*long[:300], ChatMessage("user", "another step"), *long[301:]]
    found = compare(long, changed, renderer)
    assert found.divergence is not None
    assert found.divergence.message_index == 300
    assert renderer.num_renders <= 11
