"""Request bodies, bounded one by one and in sum.

A body over the limit is refused before it is kept; bodies being worked on share a budget, so that
many large ones at once cannot exhaust memory.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from okibi.server.http.errors import ApiError

MAX_BODY_BYTES = 64 << 20
_BODIES_IN_BUDGET = 4


class BodyReader:
    """Reads bodies of at most `max_body_bytes`."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._budget = _BODIES_IN_BUDGET * max_body_bytes
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body, counted against the budget until the context ends.

        Raises:
            ApiError: 413 too large, 415 compressed, 429 too much in work already.
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
            async for chunk in request.stream():
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

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            f"The request body is larger than {self._max_body_bytes} bytes.",
            code="request_too_large",
        )


__all__ = ["MAX_BODY_BYTES", "BodyReader", "ClientDisconnect"]
