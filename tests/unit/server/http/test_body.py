"""Reading bodies; limits over real sockets are in `tests/e2e`."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from okibi.server.http.body import BodyReader
from okibi.server.http.errors import ApiError


def request_of(chunks: Iterable[bytes], *, stalls: bool) -> Request:
    """A POST whose client sends `chunks`, then ends the body or goes silent."""
    pending = list(chunks)

    async def receive() -> dict[str, Any]:
        if pending:
            return {"type": "http.request", "body": pending.pop(0), "more_body": True}
        if stalls:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def read(reader: BodyReader, request: Request) -> bytes:
    async with reader.read(request) as body:
        return body


def test_a_body_comes_whole():
    reader = BodyReader(max_body_bytes=10)
    assert asyncio.run(read(reader, request_of([b"abc", b"def"], stalls=False))) == b"abcdef"


def test_a_stalled_client_gives_its_share_of_the_budget_back():
    reader = BodyReader(max_body_bytes=10, max_pause_s=0.05)
    for _ in range(9):
        with pytest.raises(ApiError) as caught:
            asyncio.run(read(reader, request_of([b"x" * 10], stalls=True)))
        assert caught.value.status == 408
