"""The Weka agent-trace format: one JSON object per session.

Owns the schema and its strict decoding; unknown keys are an error, as in the harnesses that read
this format. A trace holds no text: every call lists the ids of its prompt's 64-token blocks,
prefix first, and equal ids mean equal tokens within one session. Must never interpret structure
(forks, joins); that is `tree`.

Format source: callanjfox/kv-cache-tester (Apache-2.0), `type` s/n/subagent.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from okibi.core.errors import OkibiError

BLOCK_TOKENS = 64
_EPSILON_S = 1e-6


class TraceError(OkibiError):
    """A trace that cannot be read or replayed; the message names the file and the reason."""


class Call(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
    rename={"num_input_tokens": "in", "num_output_tokens": "out"},
):
    """One model call. `t`, `api_time` and `think_time` are seconds.

    `hash_ids` may be shorter than `num_input_tokens / 64`; the rest has no recorded identity.
    """

    t: float
    model: str
    num_input_tokens: int
    num_output_tokens: int
    hash_ids: list[int] = []
    input_types: list[str] = []
    output_types: list[str] = []
    stop: str = ""
    api_time: float | None = None
    think_time: float | None = None

    @property
    def end_t(self) -> float:
        """Recorded end, seconds from session start; a missing or broken duration counts as 0."""
        return self.t + _duration_s(self.api_time)


class StreamingCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="s"):
    """A call recorded while streaming; `ttft` in seconds."""

    ttft: float | None = None


class BlockingCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="n"):
    """A call recorded without streaming; replayed exactly like a streaming one."""


class Subagent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
    tag="subagent",
):
    """A spawned agent with its own context; its calls share the trace's block namespace."""

    t: float
    agent_id: str
    subagent_type: str
    status: str
    requests: list[StreamingCall | BlockingCall]
    models: list[str]
    duration_ms: int | None = None
    total_tokens: int | None = None
    tool_use_count: int | None = None
    tool_tokens: int = 0
    system_tokens: int = 0

    @property
    def calls(self) -> list[Call]:
        """The inner calls in root time; a `t` before the marker is relative to it."""
        return [
            msgspec.structs.replace(call, t=self.t + call.t)
            if call.t + _EPSILON_S < self.t
            else call
            for call in self.requests
        ]

    @property
    def end_t(self) -> float:
        """Recorded end in root time: `duration_ms`, else the last inner call's end."""
        if self.duration_ms is not None:
            return self.t + max(0.0, self.duration_ms / 1000.0)
        return max((call.end_t for call in self.calls), default=self.t)


class Trace(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One recorded session. `totals` is free for its writer and ignored by other readers."""

    id: str
    models: list[str]
    block_size: int
    hash_id_scope: Literal["local"]
    requests: list[StreamingCall | BlockingCall | Subagent]
    tool_tokens: int = 0
    system_tokens: int = 0
    totals: dict[str, Any] | None = None

    @property
    def calls(self) -> list[Call]:
        """Every call of the session, nested ones included, in file order."""
        found: list[Call] = []
        for request in self.requests:
            found.extend(request.calls if isinstance(request, Subagent) else [request])
        return found

    @property
    def peak_context_tokens(self) -> int:
        """Largest prompt plus reply of any call, in recorded tokens (no chat template)."""
        return max(
            (call.num_input_tokens + call.num_output_tokens for call in self.calls), default=0
        )


def decode_trace(data: bytes | str, source: str) -> Trace:
    """Decode and check one session; `source` names it in errors.

    Raises TraceError for broken JSON, a wrong field, or a shape that cannot be replayed.
    """
    try:
        trace = msgspec.json.decode(data, type=Trace)
    except msgspec.DecodeError as error:  # ValidationError is a subclass
        raise TraceError(f"{source} is not a Weka trace: {error}") from None
    return check_trace(trace, source)


def encode_trace(trace: Trace) -> bytes:
    """JSON bytes of a trace, defaults left out, in field order (stable across runs)."""
    return msgspec.json.encode(trace)


def check_trace(trace: Trace, source: str) -> Trace:
    """Return `trace`; raise TraceError where replaying it would be wrong or meaningless."""
    if trace.block_size != BLOCK_TOKENS:
        raise TraceError(
            f"{source} has block_size {trace.block_size}; only {BLOCK_TOKENS} is supported"
        )
    if not any(isinstance(request, Call) for request in trace.requests):
        raise TraceError(f"{source} has no calls of its own (only subagents or nothing)")
    agent_ids = [r.agent_id for r in trace.requests if isinstance(r, Subagent)]
    if len(agent_ids) != len({*agent_ids}):
        raise TraceError(f"{source} uses an agent_id twice")
    for index, call in enumerate(trace.calls):
        if call.num_input_tokens < 1 or call.num_output_tokens < 0 or not math.isfinite(call.t):
            raise TraceError(f"{source}: call {index} has impossible in/out/t values")
    return trace


def _duration_s(value: float | None) -> float:
    return max(0.0, value) if value is not None and math.isfinite(value) else 0.0
