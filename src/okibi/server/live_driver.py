"""The loop that serves: wall clock, real executor, messages from outside.

Drain the inbox, keep up to `max_inflight_steps` plans submitted, reconcile what comes back, push
the outputs. Everything decided is decided by `Replica`; the simulator's event loop makes the same
calls in virtual time. Messages are handled between the submission and the end of a step, so none
waits for one.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from okibi.control.replica import Replica
from okibi.control.stats import ReplicaStats
from okibi.core.clock import Clock
from okibi.core.executor import Executor
from okibi.core.messages import Message
from okibi.core.output import RequestOutput, StepOutput
from okibi.server.step_thread import StepThread

Emit = Callable[[Sequence[RequestOutput], ReplicaStats], None]
_Event = Message | StepOutput | Exception | None


class LiveDriver:
    """Runs one replica on one executor until it is stopped."""

    def __init__(self, replica: Replica, executor: Executor, clock: Clock, emit: Emit) -> None:
        """`emit` gets the outputs of one turn of the loop; it is called on the loop's thread."""
        self._replica = replica
        self._clock = clock
        self._emit = emit
        self._inbox: SimpleQueue[_Event] = SimpleQueue()
        self._steps = StepThread(executor, self._inbox.put, self._inbox.put)
        self._is_running = True

    def post(self, message: Message) -> None:
        """Hand a message over, from any thread."""
        self._inbox.put(message)

    def fail(self, error: Exception) -> None:
        """End `run` with `error`, from any thread."""
        self._inbox.put(error)

    def stop(self) -> None:
        """End `run` after the events that are already here, from any thread."""
        self._inbox.put(None)

    def run(self) -> None:
        """Serve until `stop`.

        Raises:
            Exception: whatever ended the executor; every request in flight is lost with it.
        """
        try:
            while self._is_running:
                self._submit_plans()
                outputs = [news for event in self._next_events() for news in self._handle(event)]
                self._emit(outputs, self._replica.stats())
        finally:
            self._steps.close()

    def _submit_plans(self) -> None:
        while (plan := self._replica.next_plan(self._clock.now())) is not None:
            self._steps.submit(plan)

    def _next_events(self) -> list[_Event]:
        events = [self._inbox.get()]
        while True:
            try:
                events.append(self._inbox.get_nowait())
            except Empty:
                return events

    def _handle(self, event: _Event) -> list[RequestOutput]:
        match event:
            case None:
                self._is_running = False
                return []
            case StepOutput():
                return self._replica.on_step(event, self._clock.now())
            case Exception():
                raise event
            case message:
                return self._replica.on_message(message, self._clock.now())
