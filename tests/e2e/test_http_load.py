"""Overload, leaving clients, broken engines and large bodies: nothing hangs, nothing leaks."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.support.serving import MODEL, RunningServer, Setup, running_server
from tests.support.tiny_text import make_tokenizer

CHAT = "/v1/chat/completions"
USER: list[Any] = [{"role": "user", "content": "the cat"}]
LETTERS = tuple(make_tokenizer().encode("abcdefgh", add_special_tokens=False).ids)


def body(**changes: Any) -> dict[str, Any]:
    return {"messages": USER, "max_tokens": 8} | changes


def eventually(check: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.01)
    return check()


def is_idle(server: RunningServer) -> bool:
    return (
        server.metric("okibi:num_requests_running") == 0
        and server.metric("okibi:num_requests_waiting") == 0
        and server.metric("okibi:kv_cache_usage_ratio") == 0
    )


def test_a_full_queue_refuses_at_once():
    """user-pain A14: 4 run, 4 wait, 42 of 50 are told to come back."""
    setup = Setup(replica={"max_num_seqs": 4, "max_num_queued": 4})
    with running_server(setup) as server:
        server.executor.freeze()

        def ask(_: int) -> tuple[httpx.Response, float]:
            start = time.monotonic()
            response = server.client().post(CHAT, json=body())
            return response, time.monotonic() - start

        with ThreadPoolExecutor(50) as pool:
            pending = [pool.submit(ask, i) for i in range(50)]
            refused = lambda: sum(p.done() for p in pending)  # noqa: E731
            assert eventually(lambda: refused() == 42)
            time.sleep(0.2)
            assert refused() == 42
            server.executor.thaw()
            answers = [p.result() for p in pending]
        statuses = [response.status_code for response, _ in answers]
        assert statuses.count(200) == 8
        assert statuses.count(429) == 42
        for response, _ in answers:
            if response.status_code == 429:
                assert response.json()["error"]["code"] == "queue_full"
                assert int(response.headers["retry-after"]) >= 1
        assert eventually(lambda: is_idle(server))
        assert server.metric("okibi:requests_finished_total", reason="abort") == 0


def test_a_refusal_is_quick_while_a_step_runs():
    setup = Setup(replica={"max_num_seqs": 1, "max_num_queued": 0})
    with running_server(setup) as server, ThreadPoolExecutor(1) as pool:
        server.executor.freeze()
        first = pool.submit(lambda: server.client().post(CHAT, json=body()))
        assert eventually(lambda: server.services.engine.num_inflight == 1)
        client = server.client()
        start = time.monotonic()
        assert client.post(CHAT, json=body()).status_code == 429
        assert time.monotonic() - start < 1.0, "it did not wait for the frozen step"
        server.executor.thaw()
        assert first.result().status_code == 200


def test_choices_take_a_place_each():
    setup = Setup(replica={"max_num_seqs": 2, "max_num_queued": 1})
    with running_server(setup) as server:
        assert server.client().post(CHAT, json=body(n=4)).status_code == 429
        assert server.client().post(CHAT, json=body(n=3)).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_work(stream: bool):
    """user-pain A29."""
    setup = Setup(script=LETTERS, num_pages=4096, replica={"max_num_seqs": 2})
    with running_server(setup) as server:
        server.executor.step_s = 0.005
        for _ in range(2):
            _ask_and_leave(server, stream=stream)
        start = time.monotonic()
        assert eventually(lambda: is_idle(server), 2.0)
        assert time.monotonic() - start < 1.0
        assert server.metric("okibi:requests_finished_total", reason="abort") == 2
        assert server.client().post(CHAT, json=body(max_tokens=1)).status_code == 200


def test_all_choices_stop_when_the_client_leaves():
    with running_server(Setup(script=LETTERS, num_pages=4096)) as server:
        server.executor.step_s = 0.005
        _ask_and_leave(server, stream=True, n=4)
        assert eventually(lambda: is_idle(server), 2.0)
        assert server.metric("okibi:requests_finished_total", reason="abort") == 4


def test_a_waiting_client_may_leave_too():
    with running_server(Setup(script=LETTERS, replica={"max_num_seqs": 1})) as server:
        server.executor.freeze()
        with httpx.Client(base_url=server.url, timeout=0.3) as client:
            for _ in range(2):
                with pytest.raises(httpx.ReadTimeout):
                    client.post(CHAT, json=body())
        assert eventually(lambda: server.services.engine.num_inflight == 0)
        server.executor.thaw()
        assert eventually(lambda: is_idle(server))


def test_a_failure_in_a_stream_is_a_framed_error():
    """user-pain A31: the SDK raises, no end is faked."""
    with running_server(Setup(script=LETTERS)) as server:
        server.executor.fail_at_step = 6
        text = ""
        with server.client().stream("POST", CHAT, json=body(stream=True, max_tokens=50)) as reply:
            assert reply.status_code == 200
            text = reply.read().decode()
        events = [json.loads(part[6:]) for part in text.split("\n\n") if part]
        assert "[DONE]" not in text
        assert "fell off the bus" in events[-1]["error"]["message"]
        assert len(events) == 1 + 5 + 1, "the role, five tokens, the error"
        assert all(c["finish_reason"] is None for e in events[:-1] for c in e["choices"])
        client = server.client()
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
        assert client.post("/reset_prefix_cache").status_code == 503
        late = client.post(CHAT, json=body())
        assert late.status_code == 503
        assert late.json()["error"]["code"] == "engine_unavailable"


def test_the_sdk_raises_when_the_engine_breaks():
    with running_server(Setup(script=LETTERS)) as server:
        server.executor.fail_at_step = 6
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.APIError, match="fell off the bus"):
            for _ in client.chat.completions.create(
                model=MODEL, messages=USER, max_tokens=50, stream=True
            ):
                pass


def test_a_failure_before_the_answer_is_a_503():
    with running_server() as server:
        server.executor.fail_at_step = 2
        response = server.client().post(CHAT, json=body())
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "engine_unavailable"
        assert server.metric("okibi:requests_finished_total", reason="error") == 1
        assert server.metric("okibi:requests_finished_total", reason="abort") == 0


def test_progress_tells_a_frozen_engine_from_an_idle_one():
    """user-pain A32."""
    setup = Setup(script=LETTERS, progress_timeout_s=2, num_pages=4096)
    with running_server(setup) as server, ThreadPoolExecutor(1) as pool:
        client = server.client()
        assert client.get("/progress").json()["status"] == "idle"
        server.executor.freeze()
        frozen = pool.submit(lambda: server.client().post(CHAT, json=body()))
        assert eventually(lambda: client.get("/progress").status_code == 503)
        assert client.get("/progress").json()["error"]["code"] == "no_progress"
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 200
        server.executor.thaw()
        assert frozen.result().status_code == 200
        assert client.get("/progress").status_code == 200
        server.executor.step_s = 0.2
        long_prefill = pool.submit(
            lambda: server.client().post(
                "/v1/completions", json={"prompt": [5] * 6000, "max_tokens": 1}
            )
        )
        seen = []
        while not long_prefill.done():
            seen.append(client.get("/progress").status_code)
        assert long_prefill.result().status_code == 200
        assert len(seen) > 5
        assert set(seen) == {200}


def test_progress_sees_a_frozen_engine_though_every_client_gives_up():
    """user-pain A32, with clients less patient than the threshold."""
    setup = Setup(script=LETTERS, progress_timeout_s=0.8, num_pages=4096)
    with running_server(setup) as server:
        server.executor.freeze()
        with httpx.Client(base_url=server.url, timeout=0.3) as client:
            for _ in range(4):
                with pytest.raises(httpx.ReadTimeout):
                    client.post(CHAT, json=body())
        assert server.client().get("/progress").status_code == 503
        server.executor.thaw()
        assert eventually(lambda: is_idle(server))
        assert server.client().get("/progress").json()["status"] == "idle"


def test_large_bodies_do_not_hold_up_the_rest():
    """user-pain A45."""
    with running_server(Setup(script=LETTERS)) as server:
        large = {"messages": [{"role": "user", "content": "the quick brown fox " * 1_250_000}]}
        content = json.dumps(large).encode()
        assert len(content) > 25_000_000
        answers: list[httpx.Response] = []

        def send() -> None:
            client = httpx.Client(base_url=server.url, timeout=120)
            answers.append(client.post(CHAT, content=content))

        sender = threading.Thread(target=send)
        sender.start()
        client, slowest = server.client(), 0.0
        while sender.is_alive():
            start = time.monotonic()
            assert client.get("/health").status_code == 200
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(0.005)
        assert answers[0].status_code == 400
        assert answers[0].json()["error"]["code"] == "context_length_exceeded"
        assert slowest < 0.5, "generous for a busy machine that also runs the client"


def test_a_valid_large_body_is_answered():
    with running_server() as server:
        padded = body(max_tokens=1, metadata="x" * 10_000_000)
        assert server.client().post(CHAT, json=padded).status_code == 200


def _ask_and_leave(server: RunningServer, *, stream: bool, n: int = 1) -> None:
    """Ask for far more than will be read, and close the connection."""
    request = body(max_tokens=40_000, stream=stream, n=n)
    if not stream:
        client = httpx.Client(base_url=server.url, timeout=0.3)
        with client, pytest.raises(httpx.ReadTimeout):
            client.post(CHAT, json=request)
        return
    with server.client().stream("POST", CHAT, json=request) as response:
        lines = response.iter_lines()
        for _ in range(5):
            next(lines)
