"""The official `openai` client against `okibi serve` with a real, tiny model."""

from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from transformers import PreTrainedModel

from tests.support.serve_process import ServeProcess
from tests.support.tiny_text import END_ID, make_tokenizer

TOKENIZER = make_tokenizer()
QUESTIONS = ["the quick brown fox", "日本語 émigré", "def main():\n    return 1", "dog " * 100]


@pytest.fixture(scope="module")
def client(tiny_server: ServeProcess) -> openai.OpenAI:
    return tiny_server.openai()


def ask(client: openai.OpenAI, question: str, **options: Any) -> Any:
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 24} | options
    messages: Any = [{"role": "user", "content": question}]
    return client.chat.completions.create(model="tiny", messages=messages, **settings)


def reference_text(model: PreTrainedModel, question: str, num_tokens: int) -> str:
    """What transformers continues the same prompt with."""
    prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    ids = TOKENIZER.encode(prompt).ids
    generate: Any = model.generate
    out = generate(
        torch.tensor([ids]), max_new_tokens=num_tokens, do_sample=False, eos_token_id=END_ID,
        pad_token_id=0,
    )  # fmt: skip
    new = [token for token in out[0, len(ids) :].tolist() if token != END_ID]
    return TOKENIZER.decode(new)


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_answers_are_those_of_transformers(
    client: openai.OpenAI, tiny_model: tuple[Path, PreTrainedModel], question: str
):
    expected = reference_text(tiny_model[1], question, 24)
    for _ in range(2):
        answer = ask(client, question)
        assert answer.choices[0].message.content == expected
    streamed = ask(client, question, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == expected


def test_usage_counts_the_cache_alike_in_both_modes(client: openai.OpenAI):
    question = "a long story about the fire " * 30
    cold = ask(client, question, max_tokens=4).usage
    assert cold.prompt_tokens_details.cached_tokens == 0
    warm = ask(client, question, max_tokens=4).usage
    assert warm.prompt_tokens_details.cached_tokens == (warm.prompt_tokens - 1) // 16 * 16
    chunks = list(
        ask(client, question, max_tokens=4, stream=True, stream_options={"include_usage": True})
    )
    assert [chunk.usage for chunk in chunks if chunk.usage] == [warm]
    assert chunks[-1].choices == []


def test_the_next_turn_reuses_the_last_one(client: openai.OpenAI):
    """user-pain A11: parent and children keep their caches side by side."""
    shared: list[Any] = [{"role": "system", "content": "the tools in the list " * 30}]
    histories = {
        name: [*shared, {"role": "user", "content": f"{name} " * 60}] for name in ("ab", "cd", "ef")
    }

    def turn(name: str) -> tuple[int, int]:
        answer = client.chat.completions.create(
            model="tiny", messages=histories[name], temperature=0, max_tokens=8
        )
        histories[name] += [
            {"role": "assistant", "content": answer.choices[0].message.content or ""},
            {"role": "user", "content": "go on"},
        ]
        assert answer.usage
        assert answer.usage.prompt_tokens_details
        return answer.usage.prompt_tokens, answer.usage.prompt_tokens_details.cached_tokens or 0

    lengths = {name: turn(name)[0] for name in histories}
    for name in ("ab", "cd", "ab", "ef", "cd", "ef"):
        length, cached = turn(name)
        assert cached >= 0.95 * lengths[name] - 16
        lengths[name] = length


def test_seeds_repeat_and_differ(client: openai.OpenAI):
    def sample(seed: int) -> list[str | None]:
        answer = ask(client, "fox", temperature=1.0, seed=seed, n=3, max_tokens=16)
        return [choice.message.content for choice in answer.choices]

    first = sample(7)
    assert sample(7) == first
    assert len(set(first)) == 3
    assert sample(1234) != first


def test_logprobs_are_finite_and_sorted(client: openai.OpenAI):
    answer = ask(client, "fox", logprobs=True, top_logprobs=5, top_p=0.3, temperature=0.7)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for entry in content:
        tops = [top.logprob for top in entry.top_logprobs]
        assert tops == sorted(tops, reverse=True)
        assert len(tops) == 5
        assert -9999.0 <= entry.logprob <= 0


def test_completions_take_text_and_ids(client: openai.OpenAI):
    ids = TOKENIZER.encode("the lazy dog").ids
    answers = [
        client.completions.create(model="tiny", prompt=prompt, temperature=0, max_tokens=6)
        for prompt in ("the lazy dog", ids)
    ]
    assert answers[0].choices[0].text == answers[1].choices[0].text
    assert answers[1].usage
    assert answers[1].usage.prompt_tokens == len(ids)


def test_models_say_what_can_be_served(client: openai.OpenAI):
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert model.to_dict()["max_model_len"] == 4096
    assert client.models.retrieve("tiny").id == "tiny"


def test_errors_are_the_sdks_own(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as overflow:
        ask(client, "dog " * 5000)
    assert overflow.value.code == "context_length_exceeded"
    assert "4096" in overflow.value.message
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(
            model="gpt-9", messages=[{"role": "user", "content": "hello"}]
        )
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        ask(client, "a", temperature=-1)
    assert bad.value.param == "temperature"
