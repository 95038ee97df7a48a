"""`okibi serve` as a newcomer runs it: the default model, fetched, a question, a second turn."""

from collections.abc import Iterator
from typing import Any

import pytest

from okibi.launch.model_catalog import DEFAULT_MODEL
from tests.support.serve_process import ServeProcess, serving

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server() -> Iterator[ServeProcess]:
    with serving(DEFAULT_MODEL, "--kv-cache-memory-bytes", "512MiB") as running:
        yield running


def test_it_answers_and_remembers(server: ServeProcess):
    client = server.openai()
    (model,) = client.models.list().data
    assert model.id == DEFAULT_MODEL
    messages: list[Any] = [
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    settings: dict[str, Any] = {"model": model.id, "temperature": 0, "max_tokens": 32}
    first = client.chat.completions.create(messages=messages, **settings)
    answer = first.choices[0].message.content or ""
    assert "Paris" in answer
    assert first.choices[0].finish_reason == "stop"
    assert "<|im_end|>" not in answer

    streamed = client.chat.completions.create(messages=messages, stream=True, **settings)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert text == answer

    messages += [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "And of Italy?"},
    ]
    second = client.chat.completions.create(messages=messages, **settings)
    assert first.usage
    assert second.usage
    assert second.usage.prompt_tokens_details
    assert first.usage.prompt_tokens - 3 - 16 <= (
        second.usage.prompt_tokens_details.cached_tokens or 0
    )
    assert "Rome" in (second.choices[0].message.content or "")


def test_it_says_what_it_can_serve(server: ServeProcess):
    assert server.client().get("/v1/models").json()["data"][0]["max_model_len"] == 8192
