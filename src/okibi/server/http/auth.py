"""The key that guards the server.

Denies by default: with a key set, every route, known or not, needs it, except the few paths listed
here. Both header styles of the field work; keys are compared in constant time.
"""

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from okibi.server.http.errors import ApiError

PUBLIC_PATHS = frozenset({"/health"})
"""What anyone may ask: whether the process lives, and nothing else."""


class RequireKey:
    """ASGI middleware that lets through only requests with the key."""

    def __init__(self, app: ASGIApp, *, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PUBLIC_PATHS or self._has_key(scope):
            await self._app(scope, receive, send)
            return
        error = ApiError(
            401,
            "A valid API key is needed: 'Authorization: Bearer KEY' or 'x-api-key: KEY'.",
            code="invalid_api_key",
        )
        await error.response()(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [headers.get("x-api-key", "")]
        if scheme.lower() == "bearer":
            given.append(bearer.strip())
        matches = [hmac.compare_digest(key.encode("utf-8", "replace"), self._key) for key in given]
        return any(matches)
