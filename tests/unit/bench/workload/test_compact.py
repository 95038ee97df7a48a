import json

import pytest

from okibi.bench.workload.compact import decode_compact_trace
from okibi.bench.workload.trace import StreamingCall, Subagent, TraceError

SUBAGENT = {
    "sub": {
        "t": 20.0,
        "agent_id": "a1",
        "subagent_type": "Explore",
        "duration_ms": 5000,
        "status": "completed",
        "tool_tokens": 64,
        "system_tokens": 64,
    },
    "q": [[0.0, 200, 3, 0, [1, 3], 1.0, 0.0, "t", "u", "u"]],
}
SESSION = {
    "id": "s",
    "bs": 64,
    "tool": 64,
    "sys": 64,
    "models": ["m"],
    "q": [
        [0.0, 640, 9, 0, [1, 10], 7.0, 0.0, "t", "tku", "u"],
        [19.0, 800, 5, 8, [11, 2, 30, 2], 9.0, 12.0, "r", "t", "e"],
        SUBAGENT,
    ],
}


def test_ids_are_kept_ids_plus_runs():
    first, second, child = decode_compact_trace(json.dumps(SESSION), "x").requests
    assert isinstance(first, StreamingCall)
    assert isinstance(second, StreamingCall)
    assert isinstance(child, Subagent)
    assert first.hash_ids == list(range(1, 11))
    assert second.hash_ids == [*range(1, 9), 11, 12, 30, 31]
    assert (second.stop, second.input_types) == ("end_turn", ["tool_result"])
    assert first.output_types == ["text", "thinking", "tool_use"]
    assert (child.t, child.end_t, child.calls[0].hash_ids) == (20.0, 25.0, [1, 2, 3])


@pytest.mark.parametrize(
    "broken",
    [
        SESSION | {"unknown": 1},
        SESSION | {"q": [[0.0, 640]]},
        SESSION | {"q": ["text"]},
        SESSION | {"q": [[0.0, 640, 9, 0, [1], 7.0, 0.0, "t", "t", "u"]]},
        SESSION | {"q": [[0.0, 640, 9, 0, [1, 2], 7.0, 0.0, "?", "t", "u"]]},
    ],
)
def test_anything_else_is_refused(broken):
    with pytest.raises(TraceError, match="line 3"):
        decode_compact_trace(json.dumps(broken), "line 3")
