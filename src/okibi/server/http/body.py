"""Request bodies, bounded one by one and in sum.

A body over the limit is refused before it is kept; bodies being worked on share a budget, so that
many large ones at once cannot exhaust memory.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from okibi.server.http.errors import ApiError

MAX_BODY_BYTES = 64 << 20
MAX_PAUSE_S = 60.0
_BODIES_IN_BUDGET = 4


class BodyReader:
    """Reads bodies of at most `max_body_bytes`."""

    def __init__(
        self, max_body_bytes: int = MAX_BODY_BYTES, *, max_pause_s: float = MAX_PAUSE_S
    ) -> None:
        """`max_pause_s` is the longest wait for the next piece of a body."""
        self._max_body_bytes = max_body_bytes
        self._max_pause_s = max_pause_s
        self._budget = _BODIES_IN_BUDGET * max_body_bytes
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body, counted against the budget until the context ends.

        Raises:
            ApiError: 408 too slow, 413 too large, 415 compressed, 429 too much in work already.
            ClientDisconnect: the client left before the end.
        """
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ApiError(415, f"Content-Encoding {encoding!r} is not supported; send plain JSON.")
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            raise self._too_large()
        taken = 0
        chunks: list[bytes] = []
        try:
            async for chunk in self._chunks(request):
                if taken + len(chunk) > self._max_body_bytes:
                    raise self._too_large()
                if self._held + len(chunk) > self._budget:
                    raise ApiError(
                        429,
                        "Too many large requests at once.",
                        code="queue_full",
                        retry_after_s=1.0,
                    )
                self._held += len(chunk)
                taken += len(chunk)
                chunks.append(chunk)
            body = b"".join(chunks)
            chunks.clear()
            yield body
        finally:
            self._held -= taken

    async def _chunks(self, request: Request) -> AsyncIterator[bytes]:
        """The body as it arrives; a client that stalls may not hold the budget for long."""
        stream = request.stream()
        while True:
            try:
                async with asyncio.timeout(self._max_pause_s):
                    chunk = await anext(stream, None)
            except TimeoutError:
                raise ApiError(
                    408,
                    f"Nothing of the request body came for {self._max_pause_s:.0f} s.",
                    code="request_timeout",
                ) from None
            if chunk is None:
                return
            yield chunk

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            f"The request body is larger than {self._max_body_bytes} bytes.",
            code="request_too_large",
        )


__all__ = ["MAX_BODY_BYTES", "BodyReader", "ClientDisconnect"]
