import gzip
import json

import pytest

from okibi.bench.workload.load import LoadConfig, load_workload
from okibi.bench.workload.trace import TraceError, encode_trace
from okibi.core.errors import ConfigError
from tests.unit.bench.traces import call, demo_trace, ids, trace
from tests.unit.bench.workload.test_compact import SESSION

SMALL = encode_trace(trace(call(0.0, [1, 2]), id="small"))
LARGE = encode_trace(trace(call(0.0, ids(1, 90)), id="large"))


def loaded(path, **config):
    return [found.id for found in load_workload(path, LoadConfig(**config)).traces]


def test_a_folder_is_read_in_order_of_names(tmp_path):
    (tmp_path / "b.json").write_bytes(encode_trace(demo_trace()))
    (tmp_path / "a.json").write_bytes(SMALL)
    (tmp_path / "notes.txt").write_text("not a trace")
    assert loaded(tmp_path) == ["small", "demo"]
    assert loaded(tmp_path / "a.json") == ["small"]


def test_lines_may_be_compressed_and_of_either_encoding(tmp_path):
    lines = b"\n".join([SMALL, json.dumps(SESSION).encode(), b""])
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    assert loaded(tmp_path / "a.jsonl") == loaded(tmp_path / "a.jsonl.gz") == ["small", "s"]


def test_long_sessions_are_dropped_and_counted_after_scaling(tmp_path):
    (tmp_path / "a.json").write_bytes(LARGE)
    (tmp_path / "b.json").write_bytes(SMALL)
    workload = load_workload(tmp_path, LoadConfig(max_context_tokens=4096))
    assert [t.id for t in workload.traces] == ["small"]
    assert workload.num_dropped == 1
    assert loaded(tmp_path, max_context_tokens=4096, scale_tokens=0.5) == ["large", "small"]
    assert loaded(tmp_path, max_sessions=1) == ["large"]


@pytest.mark.parametrize(
    ("change", "flag"),
    [({"max_sessions": 0}, "--sessions"), ({"max_context_tokens": 0}, "--max-context")],
)
def test_impossible_options_name_their_flag(change, flag):
    with pytest.raises(ConfigError, match=flag):
        LoadConfig(**change)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no sessions"),
        ({"a.json": b"{}"}, r"a\.json is not a Weka trace"),
        ({"a.json": SMALL, "b.json": SMALL}, r"b\.json repeats the session id 'small'"),
        ({"a.json": LARGE}, "all 1 sessions .* longer than --max-context"),
    ],
)
def test_what_cannot_be_replayed_is_one_clear_error(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=message):
        load_workload(tmp_path, LoadConfig(max_context_tokens=4096))


def test_missing_and_broken_files_are_errors(tmp_path):
    with pytest.raises(TraceError, match="does not exist"):
        loaded(tmp_path / "none.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(SMALL)[:-9])
    with pytest.raises(TraceError, match="cannot read"):
        loaded(tmp_path / "cut.jsonl.gz")
    (tmp_path / "plain.jsonl.gz").write_bytes(SMALL)
    with pytest.raises(TraceError, match="cannot read"):
        loaded(tmp_path / "plain.jsonl.gz")


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(SMALL + b"\n{}\n")
    with pytest.raises(TraceError, match=r"a\.jsonl:2"):
        loaded(tmp_path / "a.jsonl")
