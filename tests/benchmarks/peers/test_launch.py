"""Servers are real processes here: one that answers and has a child, and ones that do not start."""

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.peers.launch import ServerFailed, free_port, running
from benchmarks.peers.servers import HOST, ServerSpec
from benchmarks.peers.usage import process_tree
from okibi.core.clock import WallClock

SERVER = """
import http.server, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else signal.SIG_DFL)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def spec(program: str, *words: str) -> ServerSpec:
    port = free_port()
    return ServerSpec(
        command=(sys.executable, "-c", program, str(port), *words),
        environment={},
        url=f"http://{HOST}:{port}",
        ready_path="/ready",
    )


async def tree_of(wanted: ServerSpec, log: Path) -> list[psutil.Process]:
    async with running(wanted, log, WallClock()) as server:
        assert server.is_alive
        assert server.ready_s > server.started_s
        return process_tree(server.pid)


@pytest.mark.parametrize("hearing", ["hears", "deaf"])
def test_nothing_is_left_of_a_server_nor_of_a_child_in_a_session_of_its_own(
    tmp_path, monkeypatch, hearing
):
    monkeypatch.setattr("benchmarks.peers.launch.STOP_TIMEOUT_S", 1.0)
    tree = asyncio.run(tree_of(spec(SERVER, hearing), tmp_path / "log"))
    assert len(tree) == 2
    psutil.wait_procs(tree, timeout=10)
    assert not any(process.is_running() for process in tree)


def test_a_server_that_ends_while_it_starts_says_where_its_log_is(tmp_path):
    log = tmp_path / "logs" / "server.log"
    with pytest.raises(ServerFailed, match=r"(?s)server\.log.*no such weights"):
        asyncio.run(tree_of(spec("raise SystemExit('no such weights')"), log))


def test_a_server_that_is_never_ready_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.launch.READY_TIMEOUT_S", 0.2)
    with pytest.raises(ServerFailed, match="not ready"):
        asyncio.run(tree_of(spec("import time; time.sleep(600)"), tmp_path / "log"))
