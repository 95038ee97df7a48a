"""Builders of small traces for the bench tests."""

from typing import Any

from okibi.bench.workload.trace import StreamingCall, Subagent, Trace


def ids(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def call(t: float, blocks: list[int], out: int = 16, **changes: Any) -> StreamingCall:
    """A call whose prompt is its blocks and 8 tokens more; it takes half a second."""
    fields: dict[str, Any] = {
        "t": t,
        "model": "big",
        "num_input_tokens": 64 * len(blocks) + 8,
        "num_output_tokens": out,
        "hash_ids": blocks,
        "api_time": 0.5,
    }
    return StreamingCall(**(fields | changes))


def subagent(t: float, calls: list[StreamingCall], **changes: Any) -> Subagent:
    fields: dict[str, Any] = {
        "t": t,
        "agent_id": "agent_001",
        "subagent_type": "Explore",
        "status": "completed",
        "models": ["small"],
        "requests": calls,
    }
    return Subagent(**(fields | changes))


def trace(*requests: StreamingCall | Subagent, **changes: Any) -> Trace:
    fields: dict[str, Any] = {
        "id": "session",
        "models": ["big"],
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": list(requests),
    }
    return Trace(**(fields | changes))


def demo_trace() -> Trace:
    """A parent of four turns that spawns a subagent of two between its second and third."""

    def demo(t: float, num_tokens: int, out: int, blocks: list[int], s: float) -> StreamingCall:
        return call(t, blocks, out, num_input_tokens=num_tokens, api_time=s)

    inner = [
        demo(1.6, 384, 8, ids(1, 3) + ids(20, 22), 0.3),
        demo(2.2, 512, 8, ids(1, 3) + ids(20, 24), 0.3),
    ]
    return trace(
        demo(0.0, 400, 20, ids(1, 6), 0.4),
        demo(1.0, 640, 24, ids(1, 10), 0.4),
        subagent(1.5, inner, duration_ms=1200, tool_tokens=128, system_tokens=64),
        demo(3.0, 832, 16, ids(1, 13), 0.4),
        demo(4.0, 960, 16, ids(1, 15), 0.4),
        id="demo",
        tool_tokens=128,
        system_tokens=64,
    )
