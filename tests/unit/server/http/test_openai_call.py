"""What chat and text completions share, over real HTTP: where a prompt parts from earlier ones."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.serving import RunningServer, running_server
from tests.support.tiny_text import make_tokenizer

TOKENIZER = make_tokenizer()


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def test_a_changed_token_is_named_to_those_who_ask(plain: RunningServer):
    """user-pain A03: which token, which message, whose."""
    client = plain.client()
    words = [f" {10 + index * 7 % 89}" for index in range(1500)]
    changed = [*words[:300], " 99", *words[301:]]
    session = {"x-session-id": "clock"}

    def ask(system: list[str], **options: Any) -> Any:
        messages = [
            {"role": "system", "content": "".join(system)},
            {"role": "user", "content": "the cat"},
        ]
        return client.post(
            "/v1/chat/completions",
            json={"messages": messages, "max_tokens": 1, **options},
            headers=session,
        )

    first = ask(words).json()
    assert "cache_diagnostics" not in first["usage"]["prompt_tokens_details"]
    details = ask(changed, cache_diagnostics=True).json()["usage"]["prompt_tokens_details"]
    found = details["cache_diagnostics"]
    index = found["divergence"]["token_index"]
    assert found == {
        "compared_with": first["id"],
        "shared_tokens": index,
        "divergence": {"token_index": index, "message_index": 0, "role": "system"},
    }
    before = len(TOKENIZER.encode("<|im_start|>system\n" + "".join(words[:300])).ids)
    assert abs(index - before) <= 1
    unit = client.get("/v1/models").json()["data"][0]["prefix_match_unit"]
    assert details["cached_tokens"] == index // unit * unit
    stream = ask(words, cache_diagnostics=True, stream=True).text
    last = stream.split("\n\n")[-3].removeprefix("data: ")
    again = json.loads(last)["usage"]
    details = again["prompt_tokens_details"]
    assert details["cache_diagnostics"]["divergence"] is None
    assert details["cached_tokens"] == (again["prompt_tokens"] - 1) // unit * unit


def test_diagnostics_of_completions_name_the_token(plain: RunningServer):
    client = plain.client()
    ids = [7 + index * 3 % 300 for index in range(100)]

    def ask(prompt: Any) -> httpx.Response:
        fields = {"prompt": prompt, "max_tokens": 1, "cache_salt": "c", "cache_diagnostics": True}
        return client.post("/v1/completions", json=fields)

    def found(prompt: list[int]) -> Any:
        details = ask(prompt).json()["usage"]["prompt_tokens_details"]
        return details["cache_diagnostics"]

    assert found(ids) == {"compared_with": None, "shared_tokens": 0, "divergence": None}
    divergence = found([*ids[:40], 6, *ids[41:]])["divergence"]
    assert divergence == {"token_index": 40, "message_index": None, "role": None}
    refused = ask([ids, ids])
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "cache_diagnostics"
