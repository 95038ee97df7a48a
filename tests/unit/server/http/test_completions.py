"""Text completions and the tokenizer endpoints."""

import json
from collections.abc import Iterator

import pytest

from tests.support.serving import RunningServer, Setup, running_server
from tests.support.tiny_text import make_tokenizer

TOKENIZER = make_tokenizer()
SCRIPT = tuple(TOKENIZER.encode("abcdefgh", add_special_tokens=False).ids)
URL = "/v1/completions"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(Setup(script=SCRIPT)) as running:
        yield running


def test_text_and_ids_are_the_same_prompt(server: RunningServer):
    client = server.client()
    text = "the lazy dog"
    ids = TOKENIZER.encode(text).ids
    answers = [
        client.post(URL, json={"prompt": prompt, "max_tokens": 4}).json() for prompt in (text, ids)
    ]
    assert answers[0]["usage"]["prompt_tokens"] == answers[1]["usage"]["prompt_tokens"] == len(ids)
    assert answers[0]["object"] == "text_completion"
    assert answers[0]["choices"][0]["text"] == TOKENIZER.decode(SCRIPT[:4])


def test_a_missing_max_tokens_is_sixteen(server: RunningServer):
    answer = server.client().post(URL, json={"prompt": "the"}).json()
    assert answer["usage"]["completion_tokens"] == 16


def test_several_prompts_and_choices_are_numbered_in_order(server: RunningServer):
    body = {"prompt": ["the", "the cat", "a"], "n": 2, "max_tokens": 2}
    answer = server.client().post(URL, json=body).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    lengths = [len(TOKENIZER.encode(prompt).ids) for prompt in body["prompt"]]
    assert answer["usage"]["prompt_tokens"] == sum(lengths)
    assert answer["usage"]["completion_tokens"] == 12


def test_a_stream_equals_the_answer(server: RunningServer):
    client = server.client()
    body = {"prompt": [[5, 6], [7]], "max_tokens": 6, "logprobs": 2}
    whole = client.post(URL, json=body).json()
    text = client.post(URL, json=body | {"stream": True}).text
    events = [json.loads(part[6:]) for part in text.split("\n\n") if part and "[DONE]" not in part]
    for choice in whole["choices"]:
        parts = [
            part
            for event in events
            for part in event["choices"]
            if part["index"] == choice["index"]
        ]
        assert "".join(part["text"] for part in parts) == choice["text"]
        for key in ("tokens", "token_logprobs", "text_offset"):
            streamed = [item for part in parts for item in part["logprobs"][key]]
            assert streamed == choice["logprobs"][key]
        assert parts[-1]["finish_reason"] == "length"


def test_logprobs_are_parallel_lists(server: RunningServer):
    body = {"prompt": "the", "max_tokens": 5, "logprobs": 3}
    (choice,) = server.client().post(URL, json=body).json()["choices"]
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == choice["text"]
    assert [choice["text"][offset] for offset in logprobs["text_offset"]] == [
        token[0] for token in logprobs["tokens"]
    ]
    for token, logprob, top in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        assert top[token] == logprob
        assert len(top) == 3


def test_tokenize_counts_what_a_call_would_use(server: RunningServer):
    client = server.client()
    messages = [{"role": "user", "content": "the quick brown fox"}]
    counted = client.post("/tokenize", json={"messages": messages}).json()
    assert set(counted) == {"count", "max_model_len", "tokens", "token_strs"}
    assert counted["count"] == len(counted["tokens"])
    chat = {"messages": messages, "max_tokens": 1}
    usage = client.post("/v1/chat/completions", json=chat).json()["usage"]
    assert counted["count"] == usage["prompt_tokens"]
    without = {"messages": messages, "add_generation_prompt": False}
    assert client.post("/tokenize", json=without).json()["count"] < counted["count"]


def test_tokenize_and_detokenize_are_inverse(server: RunningServer):
    client = server.client()
    text = "Embers <|im_end|> 日本語\n"
    tokens = client.post("/tokenize", json={"prompt": text, "return_token_strs": True}).json()
    assert len(tokens["token_strs"]) == tokens["count"]
    answer = client.post("/detokenize", json={"tokens": tokens["tokens"]})
    assert answer.json() == {"prompt": text}
    assert client.post("/detokenize", json={"tokens": [10**6]}).status_code == 400
    assert client.post("/tokenize", json={}).json()["error"]["param"] == "prompt"
