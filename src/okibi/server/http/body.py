"""Request bodies, bounded one by one and in sum.

A body over the limit is refused before it is kept; bodies being worked on share a budget, so that
many large ones at once cannot exhaust memory.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from okibi.server.http.errors import ApiError

MAX_BODY_BYTES = 64 << 20
MAX_PAUSE_S = 30.0
MAX_TOTAL_S = 300.0
_BODIES_IN_BUDGET = 4


class BodyReader:
    """Reads bodies of at most `max_body_bytes`."""

    def __init__(
        self,
        max_body_bytes: int = MAX_BODY_BYTES,
        *,
        max_pause_s: float = MAX_PAUSE_S,
        max_total_s: float = MAX_TOTAL_S,
    ) -> None:
        """A body may keep the server waiting for `max_pause_s` at a time, `max_total_s` in all."""
        self._max_body_bytes = max_body_bytes
        self._max_pause_s = max_pause_s
        self._max_total_s = max_total_s
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
        """The body as it arrives; a slow client may not hold the budget for long."""
        stream = request.stream()
        now = asyncio.get_running_loop().time
        end = now() + self._max_total_s
        while True:
            try:
                async with asyncio.timeout_at(min(now() + self._max_pause_s, end)):
                    chunk = await anext(stream, None)
            except TimeoutError:
                raise self._too_slow() from None
            if chunk is None:
                return
            yield chunk

    def _too_slow(self) -> ApiError:
        return ApiError(
            408,
            f"The request body came too slowly: up to {self._max_pause_s:g} s may pass without a "
            f"byte of it, and {self._max_total_s:g} s in all.",
            code="request_timeout",
        )

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            f"The request body is larger than {self._max_body_bytes} bytes.",
            code="request_too_large",
        )
