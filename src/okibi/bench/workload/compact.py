"""Reader of the compact re-encoding of Weka traces (one JSON object per line).

A request is a list `[t, in, out, c, runs, api_time, think_time, in_types, out_types, stop]`; its
block ids are the first `c` ids of the previous request of the same list followed by `runs`, a flat
`[start, length, ...]`. A dict with `sub` and `q` is a subagent. Must never guess: an element of
any other shape is an error.
"""

from __future__ import annotations

from typing import Any

import msgspec

from okibi.bench.workload.trace import (
    BlockingCall,
    StreamingCall,
    Subagent,
    Trace,
    TraceError,
    check_trace,
)

_INPUT_TYPES = {"t": "text", "r": "tool_result", "k": "thinking", "u": "tool_use"}
_STOPS = {"u": "tool_use", "e": "end_turn", "": ""}


class _CompactTrace(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    bs: int
    tool: int
    sys: int
    models: list[str]
    q: list[Any]


class _CompactSubagent(msgspec.Struct, forbid_unknown_fields=True):
    sub: dict[str, Any]
    q: list[Any]


class _CompactCall(msgspec.Struct, array_like=True):
    t: float
    num_input_tokens: int
    num_output_tokens: int
    num_kept_ids: int
    runs: list[int]
    api_time: float | None = None
    think_time: float | None = None
    input_types: str | None = None
    output_types: str | None = None
    stop: str | None = None


def decode_compact_trace(data: bytes | str, source: str) -> Trace:
    """Decode one line. Raises TraceError naming `source`."""
    try:
        compact = msgspec.json.decode(data, type=_CompactTrace)
        model = compact.models[0] if compact.models else "unknown"
        trace = Trace(
            id=compact.id,
            models=compact.models,
            block_size=compact.bs,
            hash_id_scope="local",
            requests=_expand_root(compact.q, model),
            tool_tokens=compact.tool,
            system_tokens=compact.sys,
        )
    except (msgspec.DecodeError, LookupError, ValueError) as error:
        raise TraceError(f"{source} is not a compact trace: {error}") from None
    return check_trace(trace, source)


def _expand_root(items: list[Any], model: str) -> list[StreamingCall | BlockingCall | Subagent]:
    requests: list[StreamingCall | BlockingCall | Subagent] = []
    previous: list[int] = []
    for item in items:
        if isinstance(item, dict):
            requests.append(_expand_subagent(msgspec.convert(item, _CompactSubagent), model))
            continue
        call = _expand_call(msgspec.convert(item, _CompactCall), previous, model)
        previous = call.hash_ids
        requests.append(call)
    return requests


def _expand_subagent(item: _CompactSubagent, model: str) -> Subagent:
    calls: list[StreamingCall | BlockingCall] = []
    previous: list[int] = []
    models: list[str] = item.sub.get("models", [model])
    for inner in item.q:
        inner_model = models[0] if models else model
        calls.append(_expand_call(msgspec.convert(inner, _CompactCall), previous, inner_model))
        previous = calls[-1].hash_ids
    plain = {key: value for key, value in item.sub.items() if key not in ("models", "type")}
    return msgspec.structs.replace(
        msgspec.convert({**plain, "models": models, "requests": [], "type": "subagent"}, Subagent),
        requests=calls,
    )


def _expand_call(item: _CompactCall, previous: list[int], model: str) -> StreamingCall:
    ids = previous[: item.num_kept_ids]
    for start, length in zip(item.runs[::2], item.runs[1::2], strict=True):
        ids.extend(range(start, start + length))
    return StreamingCall(
        t=item.t,
        model=model,
        num_input_tokens=item.num_input_tokens,
        num_output_tokens=item.num_output_tokens,
        hash_ids=ids,
        input_types=[_INPUT_TYPES[letter] for letter in item.input_types or ""],
        output_types=[_INPUT_TYPES[letter] for letter in item.output_types or ""],
        stop=_STOPS[item.stop or ""],
        api_time=item.api_time,
        think_time=item.think_time,
    )
