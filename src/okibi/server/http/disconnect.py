"""Stops work for a client that has gone.

ASGI tells of a disconnect only to whoever waits for it, so work and that wait run side by side.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

T = TypeVar("T")
_CLIENT_CLOSED_REQUEST = 499


class ClientGone(Exception):
    """The client closed the connection; there is nobody to answer."""


async def until_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled if the client leaves first.

    Call only after the request's body was read.

    Raises:
        ClientGone: the client left.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for pending in (watch, task):
            pending.cancel()
        await asyncio.gather(watch, task, return_exceptions=True)


async def answer_nobody(_: Request, __: Exception) -> Response:
    """A Starlette exception handler for clients that have gone: nothing went wrong here."""
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
