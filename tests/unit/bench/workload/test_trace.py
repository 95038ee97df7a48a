import json

import pytest

from okibi.bench.workload.trace import (
    BlockingCall,
    TraceError,
    check_trace,
    decode_trace,
    encode_trace,
)
from tests.unit.bench.traces import call, demo_trace, ids, subagent, trace


def plain() -> dict:
    return json.loads(encode_trace(demo_trace()))


def test_a_trace_reads_back_as_it_was_written():
    assert decode_trace(encode_trace(demo_trace()), "demo") == demo_trace()


def test_written_fields_have_the_names_of_the_format():
    first = plain()["requests"][0]
    assert first == {
        "type": "s",
        "t": 0.0,
        "model": "big",
        "in": 400,
        "out": 20,
        "hash_ids": ids(1, 6),
        "api_time": 0.4,
    }


def test_both_kinds_of_call_are_read():
    data = plain()
    data["requests"][0]["type"] = "n"
    assert isinstance(decode_trace(json.dumps(data), "x").requests[0], BlockingCall)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "unknown field `extra`"),
        ({"block_size": 16}, "block_size 16"),
        ({"hash_id_scope": "global"}, "hash_id_scope"),
        ({"requests": []}, "no calls"),
        ({"requests": [{"type": "x", "t": 0}]}, "Invalid value 'x'"),
        ({"requests": [{"type": "s", "t": 0, "model": "m", "in": 0, "out": 1}]}, "call 0"),
        ({"requests": [{"type": "s", "t": 0, "model": "m", "in": 4}]}, "required field `out`"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_place(change, message):
    with pytest.raises(TraceError, match=r"^file\.json") as caught:
        decode_trace(json.dumps(plain() | change), "file.json")
    assert message in str(caught.value)


def test_broken_json_is_refused():
    with pytest.raises(TraceError, match="not a Weka trace"):
        decode_trace(b"{", "file.json")


def test_an_agent_id_may_not_repeat():
    twice = [subagent(1.0, [call(1.0, [1])]), subagent(2.0, [call(2.0, [1])])]
    with pytest.raises(TraceError, match="agent_id twice"):
        check_trace(trace(call(0.0, [1]), *twice), "x")


def test_inner_times_before_the_marker_are_relative():
    relative = subagent(10.0, [call(0.0, [1]), call(1.0, [1, 2])])
    absolute = subagent(10.0, [call(10.0, [1]), call(11.0, [1, 2])])
    assert [inner.t for inner in relative.calls] == [10.0, 11.0]
    assert relative.calls == absolute.calls
    assert relative.end_t == 11.5


def test_duration_ends_a_subagent():
    assert subagent(10.0, [call(10.0, [1])], duration_ms=3000).end_t == 13.0


def test_a_broken_duration_counts_as_nothing():
    assert call(1.0, [1], api_time=float("nan")).end_t == 1.0
    assert call(1.0, [1], api_time=-1.0).end_t == 1.0


def test_peak_context_looks_into_subagents():
    big = subagent(1.0, [call(1.0, ids(1, 9), out=100)])
    assert trace(call(0.0, [1]), big).peak_context_tokens == 9 * 64 + 8 + 100
