"""The key guards everything that is not listed as public (user-pain A50)."""

from collections.abc import Iterator

import pytest
from starlette.routing import Route

from okibi.server.http.app import make_app
from okibi.server.http.auth import PUBLIC_PATHS
from tests.support.serving import RunningServer, Setup, running_server

KEY = "s3cret"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(Setup(api_key=KEY)) as running:
        yield running


def routes(server: RunningServer) -> list[tuple[str, str]]:
    app = make_app(server.services)
    return [
        (method, route.path.replace("{model:path}", "tiny"))
        for route in app.routes
        if isinstance(route, Route)
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
    ]


def test_the_public_list_is_short():
    assert {"/health"} == PUBLIC_PATHS


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": "Bearer"},
        {"x-api-key": ""},
        {"x-api-key": KEY + "x"},
        {"x-api-key": KEY[:-1]},
    ],
)
def test_no_route_answers_without_the_key(server: RunningServer, headers: dict[str, str]):
    client = server.client(headers=headers)
    checked = 0
    for method, path in [*routes(server), ("GET", "/nowhere"), ("GET", "/health/"), ("GET", "//")]:
        if path in PUBLIC_PATHS:
            continue
        response = client.request(method, path)
        assert response.status_code == 401, (method, path)
        if method != "HEAD":
            assert response.json()["error"]["code"] == "invalid_api_key"
        checked += 1
    assert checked > 60


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"x-api-key": KEY},
        {"authorization": "Bearer other", "x-api-key": KEY},
    ],
)
def test_both_header_styles_open(server: RunningServer, headers: dict[str, str]):
    client = server.client(headers=headers)
    assert client.get("/v1/models").status_code == 200
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    assert client.post("/v1/chat/completions", json=body).status_code == 200


def test_health_is_public(server: RunningServer):
    assert server.client().get("/health").status_code == 200
