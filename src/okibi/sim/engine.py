"""Drives one replica with one executor in virtual time.

Owns the steps in flight of one simulated engine. It makes the same calls in the same order as the
live driver: messages first, then plans until enough are in flight, then the oldest output. A
step starts when it was planned and the one before has ended, and lasts what its output says; the
output is fetched at once, because its duration is needed, and handed on when its time has come.
Several engines may share an event loop.
"""

from collections import deque
from collections.abc import Callable

from okibi.control.replica import Replica
from okibi.core.errors import OkibiError
from okibi.core.executor import Executor
from okibi.core.ids import RequestId
from okibi.core.messages import Message, Submit
from okibi.core.output import RequestOutput, StepOutput
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.sim.event_loop import EventLoop
from okibi.sim.records import RequestRecord

OnFinish = Callable[[RequestRecord], None]
OnPlan = Callable[[BatchPlan], None]


class StalledError(OkibiError):
    """A replica has unfinished requests and nothing will ever happen again."""


class SimulatedEngine:
    """A replica, its executor and the records of its requests."""

    def __init__(
        self,
        loop: EventLoop,
        replica: Replica,
        executor: Executor,
        *,
        on_plan: OnPlan | None = None,
    ) -> None:
        """`executor` is allocated already; `on_plan` sees every plan before it runs."""
        self._loop = loop
        self._replica = replica
        self._executor = executor
        self._on_plan = on_plan
        self._in_flight: deque[StepOutput] = deque()
        self._busy_until = 0.0
        self._on_finish: dict[RequestId, OnFinish] = {}
        self.records: dict[RequestId, RequestRecord] = {}
        loop.after_instant(self._fill)

    def submit(self, *requests: Request, at: float, on_finish: OnFinish | None = None) -> None:
        """Let requests arrive together at `at`; `on_finish` gets each one's record at its end.

        A closed-loop client submits its next turn from there.
        """
        self._loop.at(at, lambda now: self._arrive(requests, on_finish, now))

    def send(self, message: Message, *, at: float) -> None:
        """Let any other message arrive at `at`."""
        self._loop.at(at, lambda now: self._say(message, now))

    def run(self, *, until: float | None = None) -> None:
        """Run the event loop.

        Raises:
            StalledError: requests are left although no event is.
        """
        self._loop.run(until=until)
        if until is None and self._replica.has_work():
            raise StalledError(f"no event is left at {self._loop.now()} s, but requests are")

    def _arrive(
        self, requests: tuple[Request, ...], on_finish: OnFinish | None, now: float
    ) -> None:
        for request in requests:
            request_id = request.request_id
            self.records[request_id] = RequestRecord(request_id=request_id, arrival_s=now)
            if on_finish is not None:
                self._on_finish[request_id] = on_finish
        self._say(Submit(requests), now)

    def _say(self, message: Message, now: float) -> None:
        self._note(self._replica.on_message(message, now), now)

    def _fill(self, now: float) -> None:
        while (plan := self._replica.next_plan(now)) is not None:
            if self._on_plan is not None:
                self._on_plan(plan)
            self._executor.submit(plan)
            output = self._executor.collect()
            self._in_flight.append(output)
            self._busy_until = max(now, self._busy_until) + output.duration_s
            self._loop.at(self._busy_until, self._end_step)

    def _end_step(self, now: float) -> None:
        self._note(self._replica.on_step(self._in_flight.popleft(), now), now)

    def _note(self, outputs: list[RequestOutput], now: float) -> None:
        for output in outputs:
            record = self.records[output.request_id]
            record.add(output, now)
            if output.finish_reason is not None:
                on_finish = self._on_finish.pop(output.request_id, None)
                if on_finish is not None:
                    on_finish(record)
