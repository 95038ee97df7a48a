"""What the server prints to try next can be pasted into a shell."""

import json
import shlex

import pytest

from okibi.launch.welcome import welcome
from tests.support.link import READY

URL = "http://127.0.0.1:8000"


def commands(text: str) -> list[list[str]]:
    """The indented commands, split as a shell does."""
    joined = text.replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("has_key", [False, True])
def test_the_commands_are_whole_and_bring_a_key_only_where_one_is_asked_for(has_key: bool):
    curl, replay = commands(welcome("tiny", READY, URL, 1.0, has_key=has_key))
    assert curl[:2] == ["curl", f"{URL}/v1/chat/completions"]
    assert json.loads(curl[curl.index("-d") + 1])["messages"][0]["role"] == "user"
    assert ("authorization: Bearer YOUR_KEY" in curl) == has_key
    assert replay[replay.index("--url") + 1] == URL
    assert ("--api-key" in replay) == has_key
