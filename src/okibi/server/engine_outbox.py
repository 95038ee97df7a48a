"""Messages on their way to the engine: sent at once or not at all, except that aborts are kept.

ZeroMQ's queue is bounded and fills while the engine's process stands still. A message that finds
it full is the sender's to deal with; an abort is not, since its client has gone and the engine
would work on for nobody. Lives on one event loop and never waits; knows nothing of generations.
"""

import asyncio
from pathlib import Path

import zmq

from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Message
from okibi.server.engine_link import message_address
from okibi.server.engine_protocol import encode_message

MAX_QUEUED = 1000
_RETRY_S = 0.05


class EngineOutbox:
    """The sending end of the messages of one link."""

    def __init__(self, context: zmq.Context, folder: Path, *, max_queued: int = MAX_QUEUED) -> None:
        """At most `max_queued` messages wait for the engine in `folder`, and the kept aborts."""
        self._socket = context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, max_queued)
        self._socket.connect(message_address(folder))
        self._kept: dict[RequestId, None] = {}
        self._retry: asyncio.TimerHandle | None = None

    def send(self, message: Message) -> bool:
        """Queue `message`, unless the queue is full or aborts are waiting for a place in it."""
        self._send_kept()
        return not self._kept and self._try_send(message)

    def abort(self, request_id: RequestId) -> None:
        """Stop a request that was sent, as soon as the engine takes the news.

        What is kept is bounded by the requests in flight: no more of them come while it waits.
        """
        self._kept[request_id] = None
        self._send_kept()

    def close(self) -> None:
        """Drop whatever is still here."""
        self._stop_retry()
        self._socket.close()

    def _send_kept(self) -> None:
        self._stop_retry()
        while self._kept:
            request_id = next(iter(self._kept))
            if not self._try_send(Abort(request_id)):
                self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._send_kept)
                return
            del self._kept[request_id]

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _try_send(self, message: Message) -> bool:
        try:
            self._socket.send(encode_message(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True
