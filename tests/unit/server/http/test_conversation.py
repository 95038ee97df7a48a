"""Naming conversations."""

from starlette.datastructures import Headers

from okibi.server.http.conversation import conversation_hint, opening_name
from okibi.server.prompt.messages import ChatMessage


def test_a_header_goes_before_the_body_and_is_cut() -> None:
    headers = Headers({"X-Session-ID": "s" * 999})
    assert conversation_hint(headers, "key") == "s" * 256
    assert conversation_hint(Headers({}), "key") == "key"
    assert conversation_hint(Headers({}), None) == ""


def test_turns_of_a_conversation_have_its_opening_in_common() -> None:
    opening = [ChatMessage("system", "be brief"), ChatMessage("user", "task one")]
    later = [*opening, ChatMessage("assistant", "done"), ChatMessage("user", "go on")]
    other = [opening[0], ChatMessage("user", "task two")]
    assert opening_name(later) == opening_name(opening)
    assert opening_name(other) != opening_name(opening)
    assert opening_name([]) != opening_name(opening)
