"""Reading bodies, in virtual time; limits over real sockets are in `tests/e2e`."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from okibi.server.http.body import BodyReader
from okibi.server.http.errors import ApiError
from tests.support.virtual_loop import run_virtually


def request_of(chunks: Iterable[bytes], *, pause_s: float = 0.0, stalls: bool = False) -> Request:
    """A POST whose client sends `chunks` at a steady pace, then ends the body or goes silent."""
    pending = list(chunks)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause_s)
        if pending:
            return {"type": "http.request", "body": pending.pop(0), "more_body": True}
        if stalls:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def read(reader: BodyReader, request: Request) -> bytes:
    async with reader.read(request) as body:
        return body


async def refused_at(reader: BodyReader, request: Request) -> float:
    """When the client was told that it is too slow."""
    with pytest.raises(ApiError) as caught:
        await read(reader, request)
    assert caught.value.status == 408
    assert caught.value.code == "request_timeout"
    assert caught.value.response().headers["connection"] == "close"
    return asyncio.get_running_loop().time()


def test_a_body_comes_whole():
    reader = BodyReader(max_body_bytes=10)
    assert run_virtually(read(reader, request_of([b"abc", b"def"]))) == b"abcdef"


def test_a_body_may_be_slow_within_the_limits():
    reader = BodyReader(max_pause_s=30, max_total_s=300)
    assert len(run_virtually(read(reader, request_of([b"x"] * 9, pause_s=29)))) == 9


def test_a_body_may_not_pause_for_long():
    reader = BodyReader(max_pause_s=30, max_total_s=300)
    assert run_virtually(refused_at(reader, request_of([b"x"] * 9, pause_s=31))) == 30


def test_a_body_may_not_trickle_for_ever():
    reader = BodyReader(max_pause_s=30, max_total_s=300)
    request = request_of([b"x"] * 1000, pause_s=7)
    assert run_virtually(refused_at(reader, request)) == pytest.approx(300)


def test_a_stalled_client_gives_its_share_of_the_budget_back():
    reader = BodyReader(max_body_bytes=10)
    for _ in range(9):
        run_virtually(refused_at(reader, request_of([b"x" * 10], stalls=True)))
    assert run_virtually(read(reader, request_of([b"x" * 10]))) == b"x" * 10
