"""What every generating endpoint does, whatever its API.

Read the body, prepare the call on a worker thread, submit it, wait for the engine's word, answer.
The API itself comes in as a `Preparation`. A client that leaves at any point stops everything.
"""

from collections.abc import Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from okibi.server.doctor.history import EarlierPrompt
from okibi.server.http.call import Call
from okibi.server.http.disconnect import until_disconnect
from okibi.server.http.replies import EventStream, whole_answer
from okibi.server.http.reply_format import ReplyFormat
from okibi.server.http.run import Run
from okibi.server.http.run_timer import RunTimer
from okibi.server.http.services import Services


class Preparation(Protocol):
    """Turns a body into a call and the format of its answers. Runs on a worker thread.

    Raises:
        ApiError: the request is refused.
    """

    def __call__(self, body: bytes, request: Request) -> tuple[Call, ReplyFormat]: ...


async def generate(request: Request, services: Services, prepare: Preparation) -> Response:
    """Answer one generating request."""
    timer = RunTimer(services.latency, services.clock)
    services.lifecycle.enter()
    leave = _once(services.lifecycle.leave)
    response: Response | None = None
    try:
        async with services.bodies.read(request) as body:
            work = services.in_worker(lambda: prepare(body, request))
            call, reply = await until_disconnect(request.receive, work)
        generation = services.engine.submit(call.requests)
        run = Run(call, generation, services.prompts, timer)
        try:
            await until_disconnect(request.receive, run.accept())
            _remember(call, services)
            silence_s = services.config.keep_alive_s
            if call.stream:
                response = EventStream(run, reply, silence_s, leave)
                return response
            return await until_disconnect(request.receive, whole_answer(run, reply, silence_s))
        finally:
            if response is None:
                run.close()
    finally:
        if response is None:
            leave()


def _remember(call: Call, services: Services) -> None:
    for prompt in call.prompts:
        services.history.remember(call.session, EarlierPrompt(call.call_id, prompt))


def _once(act: Callable[[], None]) -> Callable[[], None]:
    pending = [act]

    def act_once() -> None:
        if pending:
            pending.pop()()

    return act_once
