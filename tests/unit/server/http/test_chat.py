"""Chat completions over real HTTP: shapes, streams, text, stops, choices, usage."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.serving import MODEL, RunningServer, Setup, running_server
from tests.support.tiny_text import END_ID, STRICT_TEMPLATE, make_assets, make_tokenizer

TOKENIZER = make_tokenizer()
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
URL = "/v1/chat/completions"


def script(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text, add_special_tokens=False).ids)


def body(**changes: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "the cat"}], "max_tokens": 8} | changes


def frames(response: httpx.Response) -> list[Any]:
    """Parsed events of a stream; `[DONE]` as a string."""
    out = []
    for line in response.text.split("\n\n"):
        if line:
            assert line.startswith("data: ")
            data = line.removeprefix("data: ")
            out.append(data if data == "[DONE]" else json.loads(data))
    return out


def streamed_text(events: list[Any], index: int = 0) -> str:
    return "".join(
        choice["delta"].get("content", "")
        for event in events
        if event != "[DONE]"
        for choice in event["choices"]
        if choice["index"] == index
    )


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def alphabet() -> Iterator[RunningServer]:
    with running_server(Setup(script=script(ALPHABET))) as server:
        yield server


def test_an_answer_in_one_piece(alphabet: RunningServer):
    answer = alphabet.client().post(URL, json=body(max_tokens=26, model=MODEL)).json()
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == MODEL
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": ALPHABET, "refusal": None}
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 26


def test_a_stream_has_roles_deltas_endings_usage_and_done(alphabet: RunningServer):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    response = alphabet.client().post(URL, json=body(max_tokens=26, **options))
    assert response.headers["content-type"].startswith("text/event-stream")
    events = frames(response)
    assert events[-1] == "[DONE]"
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert streamed_text(events) == ALPHABET
    endings = [e["choices"][0]["finish_reason"] for e in events[:-2]]
    assert [ending for ending in endings if ending] == ["length"]
    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["completion_tokens"] == 26
    assert sum("usage" in event for event in events[:-1]) == 1


def test_usage_is_on_the_last_frame_unless_asked_otherwise(alphabet: RunningServer):
    client = alphabet.client()
    events = frames(client.post(URL, json=body(stream=True)))
    assert [bool(e.get("usage")) for e in events[:-1]] == [False] * (len(events) - 2) + [True]
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    without = {"stream": True, "stream_options": {"include_usage": False}}
    assert all("usage" not in event for event in frames(client.post(URL, json=body(**without))))


def test_cached_tokens_are_reported_from_zero_to_all_but_the_last(plain: RunningServer):
    client = plain.client()
    request = body(messages=[{"role": "user", "content": "quick brown fox " * 20}], max_tokens=2)
    cold = client.post(URL, json=request).json()["usage"]
    warm = client.post(URL, json=request).json()["usage"]
    assert cold["prompt_tokens_details"] == {"cached_tokens": 0}
    unit = client.get("/v1/models").json()["data"][0]["prefix_match_unit"]
    expected = (cold["prompt_tokens"] - 1) // unit * unit
    assert warm["prompt_tokens_details"] == {"cached_tokens": expected}
    streamed = frames(client.post(URL, json=request | {"stream": True}))[-2]["usage"]
    assert streamed == warm


def test_a_changed_token_costs_only_what_follows_it(plain: RunningServer):
    """user-pain A03: reuse up to the change, and the change evicts nothing."""
    client = plain.client()
    unit = client.get("/v1/models").json()["data"][0]["prefix_match_unit"]
    ids = [5 + (index * 7) % 200 for index in range(2000)]
    other = [*ids[:900], 300, *ids[901:]]

    def cached(prompt: list[int]) -> int:
        answer = client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1})
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(ids) == 0
    assert cached(other) == 900 // unit * unit
    assert cached(ids) == 1999 // unit * unit


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("DEFGHIJ", "ABC"),
        (["XYZ", "KLM"], "ABCDEFGHIJ"),
        (["ABCD"], ""),
        (["CDE", "BCDE", "E"], "A"),
        (["CDX"], ALPHABET),
    ],
)
def test_stop_strings_never_leak(alphabet: RunningServer, stop: Any, expected: str):
    client = alphabet.client()
    request = body(max_tokens=26, stop=stop, logprobs=True)
    answer = client.post(URL, json=request).json()
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == expected
    assert choice["finish_reason"] == ("length" if expected == ALPHABET else "stop")
    assert "".join(t["token"] for t in choice["logprobs"]["content"]) == expected
    events = frames(client.post(URL, json=request | {"stream": True}))
    assert streamed_text(events) == expected
    tokens = [
        entry["token"]
        for event in events[:-1]
        for streamed in event["choices"]
        if streamed["logprobs"]
        for entry in streamed["logprobs"]["content"]
    ]
    assert "".join(tokens) == expected


def test_a_stop_string_frees_the_engine(alphabet: RunningServer):
    alphabet.client().post(URL, json=body(max_tokens=2000, stop="C"))
    assert alphabet.metric("okibi:num_requests_running") == 0


def test_stop_strings_wait_for_min_tokens(alphabet: RunningServer):
    request = body(max_tokens=40, stop="C", min_tokens=10)
    text = alphabet.client().post(URL, json=request).json()["choices"][0]["message"]["content"]
    assert text == ALPHABET + "AB"


def test_stop_token_ids_end_without_being_text(alphabet: RunningServer):
    (token,) = script("D")
    request = body(max_tokens=26, stop_token_ids=[token])
    (choice,) = alphabet.client().post(URL, json=request).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("ABC", "stop")


def test_end_of_sequence_is_obeyed_or_ignored():
    with running_server(Setup(script=(*script("AB"), END_ID))) as server:
        client = server.client()
        stopped = client.post(URL, json=body(max_tokens=6)).json()
        assert stopped["choices"][0]["message"]["content"] == "AB"
        assert stopped["choices"][0]["finish_reason"] == "stop"
        assert stopped["usage"]["completion_tokens"] == 3
        ignored = client.post(URL, json=body(max_tokens=6, ignore_eos=True)).json()
        assert ignored["choices"][0]["message"]["content"] == "ABAB"
        assert ignored["usage"]["completion_tokens"] == 6


@pytest.mark.parametrize("text", ["👩‍👩‍👧‍👦", "日本語", "émigré a\u0301", "🇯🇵🏳️‍🌈"])
def test_characters_are_never_split(text: str):
    """user-pain A46, the cut tail included."""
    tokens = script(text)
    with running_server(Setup(script=tokens)) as server:
        client = server.client()
        for count in range(1, len(tokens) + 1):
            request = body(max_tokens=count)
            whole = client.post(URL, json=request).json()["choices"][0]["message"]["content"]
            events = frames(client.post(URL, json=request | {"stream": True}))
            assert streamed_text(events) == whole == TOKENIZER.decode(tokens[:count])
            chunks = [e["choices"][0]["delta"].get("content", "") for e in events[:-1]]
            spoilt = [chunk for chunk in chunks if "\ufffd" in chunk]
            assert len(spoilt) <= 1, "only a tail that was cut off is replaced"
            assert count < len(tokens) or not spoilt


def test_unicode_line_ends_do_not_break_lines():
    text = "a\x85b\u2028c\u2029d\x0be\r\nf"
    with running_server(Setup(script=script(text))) as server:
        request = body(max_tokens=len(script(text)), stream=True)
        response = server.client().post(URL, json=request)
    lines = [line for line in response.text.splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert streamed_text(frames(response)) == text


@pytest.mark.parametrize("top", [None, 0, 5, 20])
def test_logprobs_align_with_tokens(alphabet: RunningServer, top: int | None):
    client = alphabet.client()
    request = body(logprobs=True, top_p=0.3, **({} if top is None else {"top_logprobs": top}))
    content = client.post(URL, json=request).json()["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == list(ALPHABET[:8])
    assert [bytes(entry["bytes"]).decode() for entry in content] == list(ALPHABET[:8])
    assert all(len(entry["top_logprobs"]) == (top or 0) for entry in content)
    events = frames(client.post(URL, json=request | {"stream": True}))
    streamed = [
        entry
        for event in events[:-1]
        for choice in event["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == content


def test_several_choices(plain: RunningServer):
    """user-pain A49."""
    client = plain.client()
    request = body(
        messages=[{"role": "user", "content": "lazy dog " * 40}],
        n=4,
        seed=7,
        temperature=1.0,
        max_tokens=12,
    )
    computed_before = plain.metric("okibi:computed_tokens_total")
    answer = client.post(URL, json=request).json()
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert all(choice["finish_reason"] for choice in answer["choices"])
    assert len(set(texts)) == 4
    prompt_tokens = answer["usage"]["prompt_tokens"]
    single = client.post(URL, json=request | {"n": 1}).json()["usage"]["prompt_tokens"]
    assert prompt_tokens == single, "the prompt counts once"
    computed = plain.metric("okibi:computed_tokens_total") - computed_before
    assert computed < 2 * prompt_tokens + 5 * 12, "the prompt is computed once"
    again = [c["message"]["content"] for c in client.post(URL, json=request).json()["choices"]]
    assert again == texts
    events = frames(client.post(URL, json=request | {"stream": True}))
    assert [streamed_text(events, index) for index in range(4)] == texts
    endings = [
        choice["index"]
        for event in events[:-1]
        for choice in event["choices"]
        if choice["finish_reason"]
    ]
    assert sorted(endings) == [0, 1, 2, 3]


def test_messages_come_in_many_forms(plain: RunningServer):
    client = plain.client()

    def count(messages: list[dict[str, Any]]) -> int:
        answer = client.post(URL, json=body(messages=messages, max_tokens=1))
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["prompt_tokens"]

    plain_count = count([{"role": "user", "content": "the cat"}])
    parts = [{"type": "text", "text": "the"}, {"type": "text", "text": " cat"}]
    assert count([{"role": "user", "content": parts}]) == plain_count
    system = count([{"role": "system", "content": "dog"}, {"role": "user", "content": "a"}])
    developer = count([{"role": "developer", "content": "dog"}, {"role": "user", "content": "a"}])
    assert system == developer
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert count(
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "done"},
        ]
    )


def test_late_instructions_keep_the_prefix_with_a_strict_template():
    """user-pain A04."""
    setup = Setup(assets=make_assets(chat_template=STRICT_TEMPLATE))
    with running_server(setup) as server:
        client = server.client()
        unit = client.get("/v1/models").json()["data"][0]["prefix_match_unit"]

        def ask(messages: list[dict[str, str]]) -> tuple[int, int]:
            answer = client.post(URL, json=body(messages=messages, max_tokens=1))
            assert answer.status_code == 200, answer.text
            usage = answer.json()["usage"]
            return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

        first = [
            {"role": "system", "content": "the tools " * 30},
            {"role": "user", "content": "quick"},
        ]
        second = [
            *first,
            {"role": "assistant", "content": "brown"},
            {"role": "user", "content": "fox"},
            {"role": "developer", "content": "remember the list " * 5},
        ]
        third = [
            *second,
            {"role": "assistant", "content": "jumps"},
            {"role": "user", "content": "over"},
        ]
        suffix = len(TOKENIZER.encode("<|im_start|>assistant\n").ids)
        length, _ = ask(first)
        length_2, cached = ask(second)
        assert cached >= length - suffix - unit
        _, cached = ask(third)
        assert cached >= length_2 - suffix - 2 * unit


def test_a_template_that_refuses_is_a_400():
    setup = Setup(assets=make_assets(chat_template=STRICT_TEMPLATE))
    twice = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with running_server(setup) as server:
        answer = server.client().post(URL, json=body(messages=twice))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "Roles must alternate"
    assert answer.json()["error"]["param"] == "messages"


def test_a_base_model_refuses_chat_and_says_what_to_do():
    with running_server(Setup(assets=make_assets(chat_template=None))) as server:
        answer = server.client().post(URL, json=body())
    assert answer.status_code == 400
    assert "/v1/completions" in answer.json()["error"]["message"]


def test_silence_is_filled_with_empty_frames():
    """user-pain A30."""
    with running_server(Setup(script=script("AB"), keep_alive_s=0.1)) as server:
        server.executor.freeze()
        with server.client().stream("POST", URL, json=body(stream=True, max_tokens=2)) as response:
            lines = (line for line in response.iter_lines() if line)
            assert json.loads(next(lines)[6:])["choices"][0]["delta"]["role"] == "assistant"
            for _ in range(3):
                assert json.loads(next(lines)[6:])["choices"][0]["delta"] == {}
            server.executor.thaw()
            rest = "".join(
                json.loads(line[6:])["choices"][0]["delta"].get("content", "")
                for line in lines
                if line != "data: [DONE]"
            )
    assert rest == "AB"


def test_salts_keep_caches_apart(plain: RunningServer):
    client = plain.client()
    request = body(messages=[{"role": "user", "content": "over the mat " * 30}], max_tokens=1)

    def cached(salt: str | None) -> int:
        answer = client.post(URL, json=request | ({} if salt is None else {"cache_salt": salt}))
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("a") == 0
    assert cached("b") == 0
    assert cached(None) == 0
    assert cached("a") > 0


def test_unknown_fields_are_ignored(plain: RunningServer):
    extra = {"store": False, "metadata": {"a": 1}, "service_tier": "auto", "zzz": [1, {"b": 2}]}
    assert plain.client().post(URL, json=body(**extra)).status_code == 200
