"""The engine's end of the link: two ZeroMQ sockets in a private folder.

Messages arrive on a thread of their own and are handed on decoded; events leave from the caller's
thread. Each socket is used by one thread at a time, as ZeroMQ demands. The other end is
`engine_client`.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import msgspec
import zmq

from okibi.core.errors import OkibiError
from okibi.core.messages import Message
from okibi.server.engine_protocol import FromEngine, decode_message, encode_event

_log = logging.getLogger("okibi.engine")

LINGER_MS = 1000


class LinkError(OkibiError):
    """The other end sent something that is no message."""


def message_address(folder: Path) -> str:
    """Where messages to the engine go; `folder` must be private to one user (mode 0700)."""
    return f"ipc://{folder}/messages"


def event_address(folder: Path) -> str:
    """Where events from the engine go."""
    return f"ipc://{folder}/events"


class EngineLink:
    """Receives messages and sends events for one engine."""

    def __init__(self, folder: Path) -> None:
        self._context = zmq.Context()
        self._messages = self._context.socket(zmq.PULL)
        self._messages.setsockopt(zmq.RCVHWM, 0)
        self._messages.bind(message_address(folder))
        self._events = self._context.socket(zmq.PUSH)
        self._events.setsockopt(zmq.LINGER, LINGER_MS)
        self._events.setsockopt(zmq.SNDHWM, 0)
        self._events.connect(event_address(folder))
        self._thread: Thread | None = None

    def send(self, event: FromEngine) -> None:
        self._events.send(encode_event(event))

    def receive_into(
        self, post: Callable[[Message], None], fail: Callable[[LinkError], None]
    ) -> None:
        """Hand every message to `post` from now on, on a thread of the link.

        `fail` learns of a frame that is no message: what it asked for is lost, so that going on
        would leave a client waiting for ever.
        """
        self._thread = Thread(
            target=self._receive, args=(post, fail), name="okibi-inbox", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Send what is queued, for at most `LINGER_MS`, and stop."""
        self._events.close()
        if self._thread is None:
            self._messages.close()
        # Ends the wait of the receiving thread, which then closes its own socket.
        self._context.term()

    def _receive(self, post: Callable[[Message], None], fail: Callable[[LinkError], None]) -> None:
        while True:
            try:
                frame = self._messages.recv()
            except zmq.ContextTerminated:
                self._messages.close()
                return
            try:
                message = decode_message(frame)
            except msgspec.DecodeError as error:
                _log.error("a frame of %d bytes is no message: %s", len(frame), error)
                fail(LinkError(f"the engine got a frame that is no message: {error}"))
                continue
            post(message)
