"""`okibi bench` as a person runs it: words in, files and an exit code out."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.foreign_server import ForeignConfig, foreign_server

SMALL = ["--sessions", "3", "--turns", "4", "--tool-gap", "0.05", "--think-gap", "0.1"]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "okibi", "bench", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(name="traces")
def fixture_traces(tmp_path) -> Path:
    folder = tmp_path / "traces"
    done = bench("generate", str(folder), *SMALL)
    assert done.returncode == 0, done.stderr
    assert "3 sessions" in done.stdout
    return folder


def test_generated_traces_replay_into_a_table_and_files(traces, tmp_path):
    summary, out = tmp_path / "s.json", tmp_path / "out"
    with foreign_server(ForeignConfig(token_s=0.001)) as (url, server):
        done = bench(
            *("replay", str(traces), "--url", url, "--time-scale", "0.1"),
            *("--json", str(summary), "--out", str(out)),
        )
    assert done.returncode == 0, done.stderr
    assert "P90 interactivity" in done.stdout
    data = json.loads(summary.read_text())
    assert data == json.loads((out / "summary.json").read_text())
    assert data["stop_reason"] == "completed"
    assert data["metrics"]["num_ok"] == len(server.seen) == data["workload"]["num_turns"]
    assert len((out / "requests.jsonl").read_text().splitlines()) == len(server.seen)


def test_ctrl_c_writes_the_partial_report(traces, tmp_path):
    summary = tmp_path / "summary.json"
    with foreign_server(ForeignConfig(stalls=lambda number: number > 1)) as (url, server):
        command = [sys.executable, "-m", "okibi", "bench", "replay", str(traces)]
        child = subprocess.Popen(
            [*command, "--url", url, "--out", str(tmp_path), "--concurrency", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(server.seen) < 3:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert "interrupted (partial)" in output
    data = json.loads(summary.read_text())
    assert (data["partial"], data["stop_reason"]) == (True, "interrupted")
    assert data["metrics"]["num_ok"] >= 1, "two sessions, so the third request follows a reply"
    assert data["metrics"]["num_cancelled"] >= 1
    assert data["metrics"]["num_failed"] == 0


def test_bad_input_is_one_line_and_exit_code_2(traces, tmp_path):
    with foreign_server() as (url, _):
        cases = {
            "cannot reach": ["replay", str(traces), "--url", "http://127.0.0.1:9"],
            "does not serve": ["replay", str(traces), "--url", url, "--model", "other"],
            "does not exist": ["replay", str(tmp_path / "none"), "--url", url],
            "--concurrency": ["replay", str(traces), "--url", url, "--concurrency", "0"],
            "already holds other traces": ["generate", str(traces), "--seed", "1"],
            "--tool-tokens": ["generate", str(tmp_path / "x"), "--tool-tokens", "100"],
        }
        for message, words in cases.items():
            done = bench(*words)
            assert done.returncode == 2, message
            assert message in done.stderr
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_replay_without_a_good_request_fails(traces, tmp_path):
    with foreign_server(ForeignConfig(fails=lambda _: (500, "broken"))) as (url, _):
        words = ("replay", str(traces), "--url", url, "--time-scale", "0")
        done = bench(*words, "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "http_500" in done.stdout


def test_generating_twice_writes_the_same_bytes(traces):
    before = {file.name: file.read_bytes() for file in traces.iterdir()}
    assert bench("generate", str(traces), *SMALL).returncode == 0
    assert {file.name: file.read_bytes() for file in traces.iterdir()} == before
