"""HTTP/1.1 on one connection, with the bounds that uvicorn leaves open.

Owns how large a request's head may be, how long a client may take for it, and how many connections
there are; what goes beyond is refused in the API's shape before a byte of it reaches the
application, and the connection ends. Bodies have their bounds in `http.body`.
"""

from asyncio import AbstractEventLoop, TimerHandle, Transport
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from okibi.server.http.errors import ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds of a server's connections.

    Attributes:
        max_connections: At the same time, whatever they do.
        max_head_bytes: Of a request's line and headers together.
        head_timeout_s: From the connection's start, or the first byte of a later request, to the
            end of that request's head. Also for a body that goes on after its answer.
        keep_alive_s: Silence between two requests. Longer than the 300 s for which clients keep
            idle connections, or they would lose the race.
    """

    max_connections: int = 4096
    max_head_bytes: int = 64 << 10
    head_timeout_s: float = 30.0
    keep_alive_s: int = 330


class BoundedConfig(uvicorn.Config):
    """How uvicorn serves `app` over `BoundedHttp`."""

    def __init__(self, app: ASGIApp, limits: HttpLimits, *, flush_s: int) -> None:
        """`flush_s` is how long answers may take to leave once the server stops."""
        super().__init__(
            app,
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive_s,
            timeout_graceful_shutdown=flush_s,
        )
        self.limits = limits


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, bounded."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self._deadline: TimerHandle | None = None
        self._is_in_request = False
        self._is_in_head = False
        self._num_head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._limits.max_connections:
            self._refuse(503, "There are too many connections.", "too_many_connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_in_head:
            # A head that has not ended: the parser keeps what it has got of it.
            self._num_head_bytes += len(data)
            if self._num_head_bytes > self._limits.max_head_bytes:
                self._refuse_head()
        self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_request = self._is_in_head = True
        self._num_head_bytes = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        num_header_bytes = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + num_header_bytes > self._limits.max_head_bytes:
            self._refuse_head()
            raise ValueError("the head is too large")  # stops the parser
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_request = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg, "invalid_http")

    def _watch(self) -> None:
        """Have that timer run which bounds what the client must do next."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # The application has the word, and limits of its own.
            self._stop_deadline()
        elif self.cycle is None or self._is_in_request:
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._limits.head_timeout_s, self._time_out)
        else:
            # Between requests. uvicorn takes any data for a request and stops its own timer.
            self._stop_deadline()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        if self._is_in_head:
            limit_s = self._limits.head_timeout_s
            self._refuse(
                408, f"The request's head did not come within {limit_s:g} s.", "request_timeout"
            )
        self.transport.close()

    def _refuse_head(self) -> None:
        limit = self._limits.max_head_bytes
        self._refuse(431, f"The request's head is larger than {limit} bytes.", "headers_too_large")

    def _refuse(self, status: int, message: str, code: str) -> None:
        if self.transport.is_closing():
            return
        response = ApiError(status, message, code=code).response()
        response.headers["connection"] = "close"
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        head += [name + b": " + value for name, value in response.raw_headers]
        head += [b"", bytes(response.body)]
        self.transport.write(b"\r\n".join(head))
        self.transport.close()
