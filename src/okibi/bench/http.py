"""The HTTP side that is not measured: addresses, model discovery, small JSON calls.

Owns the connection pool that the streaming client shares. Must never retry: what a server refuses
is a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from okibi.core.errors import OkibiError

_SUFFIXES = ("/chat/completions", "/v1")
_PREFLIGHT_TIMEOUT = aiohttp.ClientTimeout(total=30.0)


class ServerError(OkibiError):
    """The server cannot be used for a replay; the message says what to change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """A model as the server lists it; `max_context_tokens` is None where it does not say."""

    name: str
    max_context_tokens: int | None


def base_url(url: str) -> str:
    """Scheme, host and path prefix of a server, given with or without `/v1` and the endpoint.

    Raises ServerError for anything that is not an http(s) address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ServerError(f"--url {url!r} is not an address like http://127.0.0.1:8000")
    path = parts.path.rstrip("/")
    for suffix in _SUFFIXES:
        path = path.removesuffix(suffix)
    return f"{parts.scheme}://{parts.netloc}{path}"


class ServerApi:
    """One server; use as an async context manager."""

    def __init__(self, url: str, api_key: str | None) -> None:
        self.base = base_url(url)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=True,
        )

    async def __aenter__(self) -> ServerApi:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.session.close()

    async def find_model(self, wanted: str | None) -> ServedModel:
        """The model to replay against: `wanted`, else the first one listed.

        A server without `/v1/models` is accepted when a name is given. Raises ServerError.
        """
        status, body = await self._get("/v1/models")
        if status in (401, 403):
            raise ServerError(f"{self.base} asks for a key (HTTP {status}); pass --api-key")
        models = _listed_models(body) if status == 200 else []
        if not models:
            if wanted is None:
                raise ServerError(f"{self.base} lists no model; name one with --model")
            return ServedModel(name=wanted, max_context_tokens=None)
        if wanted is None:
            return models[0]
        for model in models:
            if model.name == wanted:
                return model
        names = ", ".join(model.name for model in models)
        raise ServerError(f"{self.base} does not serve {wanted!r}; it serves {names} (--model)")

    async def try_post_json(self, path: str, body: dict[str, Any]) -> bytes | None:
        """POST; the answered body, or None for any refusal."""
        try:
            async with self.session.post(
                self.base + path, json=body, timeout=_PREFLIGHT_TIMEOUT
            ) as response:
                answer = await response.read()
                return answer if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def _get(self, path: str) -> tuple[int, bytes]:
        try:
            async with self.session.get(self.base + path, timeout=_PREFLIGHT_TIMEOUT) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise ServerError(
                f"cannot reach {self.base} ({reason}); start a server with `okibi serve`, "
                "or check --url"
            ) from None


class _ListedModel(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _ModelList(msgspec.Struct):
    data: list[_ListedModel]


def _listed_models(body: bytes) -> list[ServedModel]:
    try:
        listed = msgspec.json.decode(body, type=_ModelList).data
    except msgspec.DecodeError:
        return []
    return [ServedModel(name=each.id, max_context_tokens=each.max_model_len) for each in listed]
