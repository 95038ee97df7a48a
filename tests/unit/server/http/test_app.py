"""What all routes have in common, asked of the ASGI application itself."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from okibi.server.http.app import make_app
from tests.support.serving import RunningServer, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"]
)
def test_a_client_that_leaves_within_its_body_is_no_defect(server: RunningServer, path: str):
    events = [
        {"type": "http.request", "body": b'{"prom', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return events.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    asyncio.run(make_app(server.services)(scope, receive, send))
    assert sent[0]["status"] == 499
