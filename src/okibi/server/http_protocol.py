"""HTTP/1.1 on one connection, with the bounds that uvicorn leaves open.

Owns how large a request's head may be and how many connections there are; what goes beyond is
refused in the API's shape before a byte of it reaches the application, and the connection ends.
"""

from asyncio import Transport
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from okibi.server.http.errors import ApiError

MAX_HEAD_BYTES = 64 << 10
MAX_CONNECTIONS = 4096


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, bounded."""

    _is_in_head = False
    _num_head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(503, "There are too many connections.", "too_many_connections")

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._is_in_head:
            return
        # A head that has not ended: the parser keeps what it has got of it.
        self._num_head_bytes += len(data)
        if self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._num_head_bytes = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        num_header_bytes = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + num_header_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
            raise ValueError("the head is too large")  # stops the parser
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg, "invalid_http")

    def _refuse_head(self) -> None:
        self._refuse(
            431, f"The request's head is larger than {MAX_HEAD_BYTES} bytes.", "headers_too_large"
        )

    def _refuse(self, status: int, message: str, code: str) -> None:
        if self.transport.is_closing():
            return
        response = ApiError(status, message, code=code).response()
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        head += [name + b": " + value for name, value in response.raw_headers]
        head += [b"connection: close", b"", bytes(response.body)]
        self.transport.write(b"\r\n".join(head))
        self.transport.close()
