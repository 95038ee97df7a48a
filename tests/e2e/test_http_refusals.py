"""Bad requests: each gets a 4xx in the API's shape that names the field, and harms nobody."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from okibi.server.http_protocol import HttpLimits
from tests.support.serving import MODEL, RunningServer, Setup, running_server
from tests.support.tiny_text import VOCAB_SIZE

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "the cat"}]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(Setup(num_pages=64, max_body_bytes=1 << 20)) as running:
        yield running


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert 400 <= response.status_code < 600
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
BAD_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("temperature", {"temperature": -1}),
    ("temperature", {"temperature": 1e9}),
    ("temperature", {"temperature": "hot"}),
    ("top_p", {"top_p": 0}),
    ("top_p", {"top_p": 2}),
    ("top_k", {"top_k": 10**7}),
    ("top_k", {"top_k": -2}),
    ("min_p", {"min_p": 1.5}),
    ("presence_penalty", {"presence_penalty": 3}),
    ("frequency_penalty", {"frequency_penalty": -3}),
    ("repetition_penalty", {"repetition_penalty": 0}),
    ("logit_bias", {"logit_bias": {str(VOCAB_SIZE): 1.0}}),
    ("logit_bias", {"logit_bias": {"the": 1.0}}),
    ("logit_bias", {"logit_bias": {"9" * 5000: 1.0}}),
    ("logit_bias", {"logit_bias": {str(i): 1.0 for i in range(5000)}}),
    ("logit_bias", {"logit_bias": {"5": 1000}}),
    ("stop_token_ids", {"stop_token_ids": [5] * 10_000}),
    ("stop_token_ids", {"stop_token_ids": [-1]}),
    ("stop", {"stop": ""}),
    ("stop", {"stop": ["x"] * 100}),
    ("stop", {"stop": "x" * 10_000}),
    ("stop[0]", {"stop": [5]}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": -1}),
    ("max_tokens", {"max_tokens": 2**63}),
    ("max_tokens", {"max_tokens": 10**400}),
    ("min_tokens", {"min_tokens": -1}),
    ("min_tokens", {"min_tokens": 9, "max_tokens": 8}),
    ("n", {"n": 0}),
    ("n", {"n": 10_000}),
    ("seed", {"seed": 2**64}),
    ("priority", {"priority": 2**40}),
    ("cache_salt", {"cache_salt": ""}),
    ("stream", {"stream": "yes"}),
    ("response_format", {"response_format": {"type": "json_object"}}),
]
BAD_CHAT_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": []}),
    ("messages", {"messages": None}),
    ("messages[0].role", {"messages": [{"role": "wizard", "content": "a"}]}),
    ("messages[0].content[0]", {"messages": IMAGE}),
    ("messages[0].content", {"messages": [{"role": "user", "content": 5}]}),
    ("messages[0].role", {"messages": [{"content": "a"}]}),
    ("max_completion_tokens", {"max_completion_tokens": 0}),
    ("top_logprobs", {"top_logprobs": 5}),
    ("top_logprobs", {"top_logprobs": 21, "logprobs": True}),
    ("tool_choice", {"tool_choice": "required"}),
    ("chat_template_kwargs", {"chat_template_kwargs": {"messages": []}}),
]
BAD_COMPLETION_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("prompt", {"prompt": []}),
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": [5, "a"]}),
    ("prompt", {"prompt": [VOCAB_SIZE]}),
    ("prompt", {"prompt": [-1]}),
    ("prompt", {"prompt": ["a"] * 1000}),
    ("prompt", {"prompt": 5}),
    ("echo", {"echo": True}),
    ("suffix", {"suffix": "b"}),
    ("best_of", {"best_of": 3}),
    ("logprobs", {"logprobs": 21}),
]


@pytest.mark.parametrize(("field", "change"), [*BAD_FIELDS, *BAD_CHAT_FIELDS])
def test_bad_chat_fields_are_named(server: RunningServer, field: str, change: dict[str, Any]):
    """user-pain A44."""
    client = server.client()
    body = {"messages": USER, "max_tokens": 4} | change
    response = client.post(CHAT, json=body)
    assert response.status_code == 400
    assert error_of(response)["param"] == field
    assert client.post(CHAT, json={"messages": USER, "max_tokens": 1}).status_code == 200


@pytest.mark.parametrize(("field", "change"), [*BAD_FIELDS, *BAD_COMPLETION_FIELDS])
def test_bad_completion_fields_are_named(server: RunningServer, field: str, change: dict[str, Any]):
    body = {"prompt": "the cat", "max_tokens": 4} | change
    response = server.client().post(COMPLETIONS, json=body)
    assert response.status_code == 400
    assert error_of(response)["param"] == field


def test_null_content_is_no_error(server: RunningServer):
    body = {"messages": [*USER, {"role": "assistant", "content": None}], "max_tokens": 1}
    assert server.client().post(CHAT, json=body).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"nope",
        b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_json_is_refused(server: RunningServer, content: bytes):
    response = server.client().post(CHAT, content=content)
    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_json"


def test_unknown_models_are_404(server: RunningServer):
    client = server.client()
    body = {"messages": USER, "model": "gpt-9"}
    for response in (client.post(CHAT, json=body), client.get("/v1/models/gpt-9")):
        assert response.status_code == 404
        assert error_of(response)["code"] == "model_not_found"


def test_wrong_paths_and_methods_have_the_same_shape(server: RunningServer):
    client = server.client()
    assert client.get("/v2/chat").status_code == 404
    assert error_of(client.get("/v2/chat"))["code"] == "not_found"
    assert error_of(client.get(CHAT))["code"] == "method_not_allowed"
    assert client.get(CHAT).status_code == 405


def test_overflow_names_both_numbers(server: RunningServer):
    """user-pain A42, A43: refused at once, never cut, the code is the one clients look for."""
    client = server.client()
    limit = client.get("/v1/models").json()["data"][0]["max_model_len"]
    ids = [5] * (limit + 100)
    response = client.post(COMPLETIONS, json={"prompt": ids, "max_tokens": 1})
    assert response.status_code == 400
    error = error_of(response)
    assert error["code"] == "context_length_exceeded"
    assert f"maximum context length is {limit} tokens" in error["message"]
    assert f"{limit + 100}" in error["message"]
    fits = client.post(COMPLETIONS, json={"prompt": ids[: limit - 1], "max_tokens": 1})
    assert fits.json()["usage"]["prompt_tokens"] == limit - 1
    too_much = client.post(COMPLETIONS, json={"prompt": ids[: limit - 1], "max_tokens": 2})
    assert error_of(too_much)["code"] == "context_length_exceeded"
    long_chat = [{"role": "user", "content": "the cat sat " * limit}]
    counted = client.post("/tokenize", json={"messages": long_chat}).json()["count"]
    chat = client.post(CHAT, json={"messages": long_chat})
    assert error_of(chat)["code"] == "context_length_exceeded"
    assert str(counted) in error_of(chat)["message"]
    assert server.metric("okibi:requests_rejected_total") == 0, "refused before the queue"


def test_the_advertised_limit_is_the_one_that_can_be_served():
    """user-pain A13."""
    setup = Setup(num_pages=20, replica={"max_model_len": 32_000})
    with running_server(setup) as server:
        client = server.client()
        limit = client.get("/v1/models").json()["data"][0]["max_model_len"]
        assert limit <= 20 * 16
        response = client.post(COMPLETIONS, json={"prompt": [5] * 400, "max_tokens": 1})
        assert response.status_code == 400
        assert str(limit) in error_of(response)["message"]
        short = {"prompt": [5] * 50, "max_tokens": 1}
        assert client.post(COMPLETIONS, json=short).status_code == 200


def test_bodies_over_the_limit_are_413(server: RunningServer):
    client = server.client()
    padding = "x" * ((1 << 20) - 200)
    fine = {"messages": USER, "max_tokens": 1, "metadata": padding}
    assert client.post(CHAT, json=fine).status_code == 200
    response = client.post(CHAT, json=fine | {"metadata": padding * 2})
    assert response.status_code == 413
    assert error_of(response)["code"] == "request_too_large"


def test_bodies_without_a_declared_length_are_bounded_too(server: RunningServer):
    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * (1 << 16)

    response = server.client().post(CHAT, content=endless())
    assert response.status_code == 413


def test_compressed_bodies_are_refused_clearly(server: RunningServer):
    response = server.client().post(CHAT, content=b"x", headers={"content-encoding": "gzip"})
    assert response.status_code == 415
    assert "gzip" in error_of(response)["message"]


def test_every_answer_has_a_request_id(server: RunningServer):
    client = server.client()
    assert client.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == (
        "abc-1"
    )
    ids = {client.get("/v2").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert len(client.get("/", headers={"x-request-id": "a b"}).headers["x-request-id"]) == 32


def test_models_are_described_under_every_name(server: RunningServer):
    client = server.client()
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    assert [model["id"] for model in models["data"]] == [MODEL, "alias"]
    assert client.get("/v1/models/alias").json()["id"] == "alias"
    body = {"messages": USER, "model": "alias", "max_tokens": 1}
    assert client.post(CHAT, json=body).json()["model"] == "alias"


def test_arguments_nested_without_end_are_passed_on_as_text(server: RunningServer):
    call = {"type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
    messages = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}, *USER]
    response = server.client().post(CHAT, json={"messages": messages, "max_tokens": 1})
    assert response.status_code in (200, 400)


def test_more_ids_than_a_sequence_has_are_refused_before_they_are_read(server: RunningServer):
    response = server.client().post("/detokenize", json={"tokens": [-1] * 10_000})
    assert error_of(response)["code"] == "context_length_exceeded"
    assert error_of(response)["param"] == "tokens"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 11_000 + b"\r\n", 431),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 66_000, 431),
        (b"GET /" + b"y" * 66_000, 431),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_flood_of_headers_is_cut_off(server: RunningServer, head: bytes, status: int):
    with connected(server) as sock:
        sock.sendall(head)
        answer = all_of(sock)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert set(json.loads(answer.split(b"\r\n\r\n")[1])["error"]) >= {"message", "code"}
    assert server.client().get("/health").status_code == 200


def test_connections_that_say_too_little_are_ended():
    setup = Setup(limits=HttpLimits(head_timeout_s=0.5))
    with running_server(setup) as server, connected(server) as silent, connected(server) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nhost:")
        assert all_of(silent) == b""
        assert all_of(slow).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_stalls_is_answered_and_its_connection_ended():
    with running_server(Setup(max_body_pause_s=0.5)) as server, connected(server) as sock:
        sock.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{{".encode())
        head, body = all_of(sock).split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["error"]["code"] == "request_timeout"


def test_the_third_of_two_connections_is_refused():
    setup = Setup(limits=HttpLimits(max_connections=2))
    request = b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    with running_server(setup) as server, connected(server) as first, connected(server) as second:
        with connected(server) as third:
            answer = all_of(third)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"] == "too_many_connections"
        first.sendall(request)
        assert all_of(first).startswith(b"HTTP/1.1 200 ")
        with connected(server) as fourth:
            fourth.sendall(request)
            assert all_of(fourth).startswith(b"HTTP/1.1 200 ")
        second.sendall(request)
        assert all_of(second).startswith(b"HTTP/1.1 200 ")


def connected(server: RunningServer) -> socket.socket:
    url = httpx.URL(server.url)
    return socket.create_connection((url.host, url.port or 80), timeout=10)


def all_of(sock: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    return b"".join(iter(lambda: sock.recv(65536), b""))
