"""Shrinks recorded sessions so that they fit a small model, keeping what they share.

Block j of a scaled prompt carries the id of recorded block `floor(j / factor)`. The map depends
on the position alone, so prompts that shared a prefix still share the scaled prefix, forks still
fork and compactions still shrink. Times are not touched; that is the replay's `time_scale`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from okibi.bench.workload.trace import BLOCK_TOKENS, Call, Subagent, Trace, TraceError

_CallT = TypeVar("_CallT", bound=Call)


def scale_trace(trace: Trace, factor: float) -> Trace:
    """Return `trace` with every token count multiplied by `factor` (0 < factor <= 1).

    Counts are rounded, at least 1 for prompts and recorded replies. Raises TraceError for a factor
    outside the range.
    """
    if not 0.0 < factor <= 1.0:
        raise TraceError(f"--scale-tokens must be above 0 and at most 1, not {factor:g}")
    if factor == 1.0:
        return trace
    requests = [
        _scale_subagent(request, factor)
        if isinstance(request, Subagent)
        else _scale_call(request, factor)
        for request in trace.requests
    ]
    return msgspec.structs.replace(
        trace,
        requests=requests,
        tool_tokens=round(trace.tool_tokens * factor),
        system_tokens=round(trace.system_tokens * factor),
    )


def _scale_subagent(subagent: Subagent, factor: float) -> Subagent:
    return msgspec.structs.replace(
        subagent,
        requests=[_scale_call(call, factor) for call in subagent.requests],
        tool_tokens=round(subagent.tool_tokens * factor),
        system_tokens=round(subagent.system_tokens * factor),
    )


def _scale_call(call: _CallT, factor: float) -> _CallT:
    num_input = max(1, round(call.num_input_tokens * factor))
    covered = min(num_input // BLOCK_TOKENS, int(len(call.hash_ids) * factor))
    return msgspec.structs.replace(
        call,
        num_input_tokens=num_input,
        num_output_tokens=max(1, round(call.num_output_tokens * factor)),
        hash_ids=[call.hash_ids[int(j / factor)] for j in range(covered)],
    )
