"""`okibi serve` as a process: start, refusals at start, drain, death of either half."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest
from transformers import PreTrainedModel

from tests.support.serve_process import ServeProcess, eventually, serving

CHAT = "/v1/chat/completions"
SMALL = ("--kv-cache-memory-bytes", "16MiB")


def body(**changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "the quick brown fox"}]
    return {"messages": messages, "max_tokens": 8, "ignore_eos": True} | changes


@pytest.fixture
def folder(tiny_model: tuple[Path, PreTrainedModel]) -> Path:
    return tiny_model[0]


def read_events(response: httpx.Response) -> list[Any]:
    lines = [line[6:] for line in response.iter_lines() if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def num_running(server: ServeProcess) -> int:
    text = server.client().get("/metrics").text
    found = re.search(r"^okibi:num_requests_running(?:{.*})? ([0-9]+)", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def run_serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "okibi", "serve", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


# -- start -------------------------------------------------------------------------------------


def test_the_start_says_what_happens_and_what_to_try(tiny_server: ServeProcess):
    lines = tiny_server.output.splitlines()
    assert lines[0].startswith("loading ")
    assert "weights loaded as" in lines[1]
    assert lines[2].startswith("kernels: ")
    assert "KV pool:" in lines[3]
    assert f"curl {tiny_server.url}/v1/chat/completions" in tiny_server.output
    assert f"okibi bench replay traces --url {tiny_server.url}" in tiny_server.output


def test_a_taken_port_is_one_line_and_exit_code_2(folder: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_serve(str(folder), "--port", str(port))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--max-model-len", "1000000"), "--max-model-len"),
        (("--max-model-len", "1000", "--kv-cache-memory-bytes", "64KiB"), "the KV pool"),
        (("--device", "abacus"), "--device"),
        (("--kernels", "native", "--dtype", "float16"), "--kernels native"),
        (("--kv-cache-memory-bytes", "1KiB"), "--kv-cache-memory-bytes"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_flag(
    folder: Path, flags: tuple[str, ...], words: str
):
    done = run_serve(str(folder), "--port", "0", *flags)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--port", "70000"),
        ("--kv-cache-memory-bytes", "much"),
        ("--shutdown-timeout", "-1"),
        ("--progress-timeout", "0"),
        ("--host", "nowhere.invalid"),
        ("--scheduling-policy", "lottery"),
        ("--kernels", "corn"),
        ("--max-num-batched-tokens", "8"),
    ],
)
def test_what_needs_no_model_is_refused_before_loading_one(flags: tuple[str, ...]):
    done = run_serve("/nonexistent/model", *flags)
    assert done.returncode == 2
    assert flags[0] in done.stderr or flags[1] in done.stderr
    assert "nonexistent" not in done.stderr


def test_a_model_without_a_tokenizer_is_refused(folder: Path, tmp_path: Path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    done = run_serve(str(tmp_path), "--port", "0")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "tokenizer.json" in done.stderr


def test_a_folder_too_deep_for_sockets_is_refused(folder: Path, tmp_path: Path):
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    refused = run_serve(str(folder), "--port", "0", *SMALL, TMPDIR=str(deep))
    assert refused.returncode == 2
    assert "TMPDIR" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_model_that_is_not_there_is_refused():
    done = run_serve("/nonexistent/model", "--port", "0")
    assert done.returncode == 2
    assert "/nonexistent/model" in done.stderr


# -- keys --------------------------------------------------------------------------------------


def test_a_key_comes_from_the_environment_and_guards(folder: Path):
    with serving(folder, *SMALL, OKIBI_API_KEY="s3cret") as server:
        assert server.client().get("/v1/models").status_code == 401
        assert server.client().get("/health").status_code == 200
        with pytest.raises(openai.AuthenticationError):
            server.openai("wrong").models.list()
        assert server.openai("s3cret").models.list().data[0].id == folder.name


# -- drain -------------------------------------------------------------------------------------


def test_sigterm_drains(folder: Path):
    with serving(folder, *SMALL) as server:
        engine = server.engine
        with (
            server.client() as client,
            client.stream("POST", CHAT, json=body(max_tokens=600, stream=True)) as running,
        ):
            engine.suspend()
            server.terminate()
            other = server.client()
            assert eventually(lambda: other.get("/ready").status_code == 503)
            refused = other.post(CHAT, json=body())
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["code"] == "draining"
            assert other.get("/health").status_code == 200
            engine.resume()
            events = read_events(running)
        assert events[-1] == "[DONE]"
        assert events[-2]["usage"]["completion_tokens"] == 600
        assert server.wait() == 0
        assert "stopping" in server.output
        assert eventually(lambda: not engine.is_running())


@pytest.mark.parametrize("second_signal", [True, False])
def test_what_does_not_finish_ends_with_a_framed_error(folder: Path, second_signal: bool):
    timeout_s = "60" if second_signal else "0.3"
    with serving(folder, *SMALL, "--shutdown-timeout", timeout_s) as server:
        with (
            server.client() as client,
            client.stream("POST", CHAT, json=body(max_tokens=3000, stream=True)) as running,
        ):
            server.terminate()
            if second_signal:
                assert eventually(lambda: "stopping" in server.output)
                server.terminate()
            events = read_events(running)
        assert "shutting down" in events[-1]["error"]["message"]
        assert all("finish_reason" not in str(e) or "None" in str(e) for e in events[:-1])
        assert server.wait(20) == 0


def test_an_idle_server_stops_at_once(folder: Path):
    with serving(folder, *SMALL) as server:
        server.terminate()
        assert server.wait(10) == 0


# -- death -------------------------------------------------------------------------------------


def test_a_killed_engine_ends_requests_and_the_server(folder: Path):
    """user-pain A31: the SDK raises; the server says why it stops."""
    with serving(folder, *SMALL) as server, ThreadPoolExecutor(1) as pool:
        whole = pool.submit(lambda: server.client().post(CHAT, json=body(max_tokens=3000)))
        stream = server.openai().chat.completions.create(
            model=folder.name, messages=body()["messages"], max_tokens=3000, stream=True,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        assert eventually(lambda: num_running(server) == 2)
        seen = 0

        def consume() -> None:
            nonlocal seen
            for _ in stream:
                seen += 1
                if seen == 20:
                    server.engine.kill()

        with pytest.raises(openai.APIError, match="SIGKILL"):
            consume()
        assert seen >= 20
        assert whole.result().status_code == 503
        assert whole.result().json()["error"]["code"] == "engine_unavailable"
        assert server.wait(20) == 1
        assert "the engine is gone" in server.output
        assert "SIGKILL" in server.output


def test_a_killed_server_leaves_nothing_behind(folder: Path, tmp_path: Path):
    with serving(folder, *SMALL, TMPDIR=str(tmp_path)) as server:
        engine = server.engine
        assert list(tmp_path.glob("okibi-*"))
        server.kill()
        assert eventually(lambda: not _is_alive(engine))
        assert not list(tmp_path.glob("okibi-*"))


def test_a_frozen_engine_shows_in_progress_only(folder: Path):
    """user-pain A32."""
    with serving(folder, *SMALL, "--progress-timeout", "0.5") as server:
        client = server.client()
        assert client.get("/progress").status_code == 200
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(lambda: server.client().post(CHAT, json=body(max_tokens=2000)))
            assert eventually(lambda: client.get("/progress").json().get("status") == "moving")
            server.engine.send_signal(signal.SIGSTOP)
            assert eventually(lambda: client.get("/progress").status_code == 503)
            assert client.get("/health").status_code == 200
            server.engine.send_signal(signal.SIGCONT)
            assert pending.result().status_code == 200
        assert client.get("/progress").status_code == 200


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
