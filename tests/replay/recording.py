"""Input logs of a replica: everything it was told, when, and what it answered.

Owns recording and replaying. A log is the whole truth about a pure replica: fed to a fresh one it
must yield the same answers, byte for byte.
"""

from collections.abc import Callable
from dataclasses import dataclass

from okibi.control.config import ReplicaConfig
from okibi.control.replica import Replica
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.messages import Message
from okibi.core.output import RequestOutput, StepOutput
from okibi.core.plan import BatchPlan
from okibi.sim.plan_codec import encode_plan

Answer = bytes | tuple[RequestOutput, ...] | None
Call = Callable[[Replica], Answer]


@dataclass(frozen=True, slots=True)
class Entry:
    """One call and its answer; plans are kept as bytes."""

    call: Call
    answer: Answer


class RecordingReplica(Replica):
    """A replica that writes its own input log."""

    def __init__(self, config: ReplicaConfig, layout: KVCacheLayout) -> None:
        super().__init__(config, layout)
        self.log: list[Entry] = []

    def on_message(self, message: Message, now: float) -> list[RequestOutput]:
        outputs = super().on_message(message, now)
        self.log.append(
            Entry(lambda replica: tuple(replica.on_message(message, now)), tuple(outputs))
        )
        return outputs

    def next_plan(self, now: float) -> BatchPlan | None:
        plan = super().next_plan(now)
        self.log.append(Entry(lambda replica: _encoded(replica.next_plan(now)), _encoded(plan)))
        return plan

    def on_step(self, output: StepOutput, now: float) -> list[RequestOutput]:
        outputs = super().on_step(output, now)
        self.log.append(Entry(lambda replica: tuple(replica.on_step(output, now)), tuple(outputs)))
        return outputs


def replay(log: list[Entry], replica: Replica) -> list[Answer]:
    """The answers of a fresh replica to a recorded log."""
    return [entry.call(replica) for entry in log]


def plans(log: list[Entry]) -> list[bytes]:
    """The recorded plans, in order."""
    return [entry.answer for entry in log if isinstance(entry.answer, bytes)]


def _encoded(plan: BatchPlan | None) -> bytes | None:
    return None if plan is None else encode_plan(plan)
