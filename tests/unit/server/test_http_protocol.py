"""What one connection may do, on a clock of its own: the real protocol between a script and an
application of a few lines.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.server import ServerState

from okibi.server.http_protocol import BoundedConfig, BoundedHttp, HttpLimits
from tests.support.virtual_loop import run_virtually

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n"
LIMITS = HttpLimits(head_timeout_s=20, keep_alive_s=330)
ANSWER_S = 100.0


class Wire(asyncio.Transport):
    """A connection's other end, and a record of what happened to it."""

    def __init__(self, server: "Server") -> None:
        super().__init__({"peername": ("10.0.0.1", 1), "sockname": ("10.0.0.2", 80)})
        self.answers = b""
        self.closed_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._protocol = server.protocol()
        self._protocol.connection_made(self)

    def send(self, data: bytes) -> None:
        if self.closed_at is None:
            self._protocol.data_received(data)

    async def trickle(self, data: bytes, pause_s: float) -> None:
        """Send byte by byte, as long as anyone listens."""
        for value in data:
            if self.closed_at is not None:
                return
            self.send(bytes([value]))
            await asyncio.sleep(pause_s)

    def write(self, data: Any) -> None:
        self.answers += data

    def close(self) -> None:
        if self.closed_at is None:
            self.closed_at = self._loop.time()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Server:
    """Answers at once, or after `ANSWER_S` at /slow; never reads a body."""

    def __init__(self, limits: HttpLimits) -> None:
        self._config = BoundedConfig(self._answer, limits, flush_s=1)
        self._state = ServerState()

    def protocol(self) -> BoundedHttp:
        return BoundedHttp(self._config, self._state, {})

    @staticmethod
    async def _answer(scope: Any, receive: Any, send: Any) -> None:
        if Request(scope).url.path == "/slow":
            await asyncio.sleep(ANSWER_S)
        await Response(b"done")(scope, receive, send)


def serve(client: Callable[[Wire], Awaitable[None]], limits: HttpLimits = LIMITS) -> Wire:
    """What became of a connection that did as `client` says, long after."""

    async def run() -> Wire:
        wire = Wire(Server(limits))
        await client(wire)
        await asyncio.sleep(1000)
        return wire

    return run_virtually(run())


def test_a_silent_connection_ends_without_a_word():
    async def client(wire: Wire) -> None:
        pass

    wire = serve(client)
    assert wire.closed_at == pytest.approx(20)
    assert wire.answers == b""


@pytest.mark.parametrize("pause_s", [0.5, 6, 15])
def test_a_head_that_trickles_in_is_given_up(pause_s: float):
    async def client(wire: Wire) -> None:
        await wire.trickle(GET[:5] + b"x" * 2000, pause_s)

    wire = serve(client)
    assert wire.closed_at == pytest.approx(20)
    head, body = wire.answers.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert head.lower().count(b"connection: close") == 1
    error = json.loads(body)["error"]
    assert error["code"] == "request_timeout"
    assert "20 s" in error["message"]


def test_a_slow_head_within_the_limit_is_served():
    async def client(wire: Wire) -> None:
        await wire.trickle(GET, 19 / len(GET))

    wire = serve(client)
    assert wire.answers.startswith(b"HTTP/1.1 200")
    assert wire.answers.endswith(b"done")


def test_an_idle_connection_is_kept_between_requests():
    async def client(wire: Wire) -> None:
        for _ in range(2):
            wire.send(GET)
            await asyncio.sleep(329)

    wire = serve(client)
    assert wire.answers.count(b"done") == 2
    assert wire.closed_at == pytest.approx(329 + 330)


def test_a_later_head_has_the_same_time():
    async def client(wire: Wire) -> None:
        wire.send(GET)
        await asyncio.sleep(100)
        await wire.trickle(GET[:5] + b"x" * 1000, 1)

    wire = serve(client)
    assert wire.closed_at == pytest.approx(120)


def test_an_answer_may_take_its_time_whatever_the_client_sends_meanwhile():
    async def client(wire: Wire) -> None:
        wire.send(GET.replace(b"/ ", b"/slow "))
        await wire.trickle(GET[:-1], 90 / len(GET))
        await asyncio.sleep(5)
        assert wire.answers == b""
        await asyncio.sleep(10)
        assert wire.answers.count(b"done") == 1
        wire.send(GET[-1:])

    assert serve(client).answers.count(b"done") == 2


def test_a_body_that_goes_on_after_its_answer_is_given_up():
    async def client(wire: Wire) -> None:
        wire.send(POST)
        await asyncio.sleep(1)
        assert wire.answers.count(b"done") == 1
        await wire.trickle(b"x" * 1000, 1)

    wire = serve(client)
    assert wire.closed_at == pytest.approx(1 + 20)
    assert b"408" not in wire.answers


def test_a_body_that_ends_after_its_answer_leaves_a_connection_to_keep():
    async def client(wire: Wire) -> None:
        wire.send(POST)
        await asyncio.sleep(1)
        wire.send(b"x" * 1000)
        await asyncio.sleep(300)
        wire.send(GET)

    wire = serve(client)
    assert wire.answers.count(b"done") == 2
    assert wire.closed_at == pytest.approx(1 + 300 + 330)


def test_empty_lines_after_an_answer_do_not_hold_a_connection():
    async def client(wire: Wire) -> None:
        wire.send(GET)
        await asyncio.sleep(10)
        wire.send(b"\r\n")

    assert serve(client).closed_at == pytest.approx(10 + 330)


def test_connections_beyond_the_limit_are_refused_until_a_place_frees():
    async def run() -> None:
        server = Server(HttpLimits(max_connections=2))
        first, second, third = Wire(server), Wire(server), Wire(server)
        head, body = third.answers.split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert json.loads(body)["error"]["code"] == "too_many_connections"
        assert third.is_closing()
        first.close()
        await asyncio.sleep(0)
        fourth = Wire(server)
        for wire in (second, fourth):
            wire.send(GET)
        await asyncio.sleep(1)
        assert all(wire.answers.endswith(b"done") for wire in (second, fourth))
        assert Wire(server).answers.startswith(b"HTTP/1.1 503 ")

    run_virtually(run())
