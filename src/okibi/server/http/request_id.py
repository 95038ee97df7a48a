"""The `x-request-id` header: a client's own id comes back, others get one.

Only ids of a harmless alphabet and length are echoed.
"""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = "x-request-id"
_HARMLESS = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestIdHeader:
    """ASGI middleware that puts the id on every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(_HEADER, "")
        request_id = given if _HARMLESS.fullmatch(given) else secrets.token_hex(16)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[_HEADER] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)
