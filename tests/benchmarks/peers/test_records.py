import pytest

from benchmarks.peers.records import (
    CaseRecord,
    RunHeader,
    append_record,
    done_keys,
    drop_unfinished_line,
    open_problems,
    read_records,
)
from okibi.core.errors import ConfigError


def record(case: str, *values: float, problem: str | None = None) -> CaseRecord:
    kept = {"tok_per_s": list(values)} if values else {}
    return CaseRecord(round=1, variant="okibi-bf16", case=case, values=kept, problem=problem)


def test_records_read_back_as_they_were_written(tmp_path):
    path = tmp_path / "records.jsonl"
    assert read_records(path) == []
    written = [record("decode/100", 1.5, 2.25), record("replay/4", problem="HTTP 500")]
    for each in written:
        append_record(path, each)
    assert read_records(path) == written


def test_a_line_cut_off_by_a_kill_is_dropped_before_the_next_one(tmp_path):
    path = tmp_path / "records.jsonl"
    drop_unfinished_line(path)
    append_record(path, record("decode/100", 1.0))
    with path.open("ab") as file:
        file.write(b'{"round":1,"var')
    drop_unfinished_line(path)
    append_record(path, record("decode/4096", 2.0))
    assert [each.case for each in read_records(path)] == ["decode/100", "decode/4096"]


def test_a_case_without_a_value_is_not_done():
    records = [record("decode/100", 1.0, problem="a doubt"), record("replay/4", problem="died")]
    assert done_keys(records) == {(1, "okibi-bf16", "decode/100")}


def test_a_resumed_run_must_measure_the_same_thing():
    header = RunHeader(
        model="smollm2", quick=True, nonce="n", started="", okibi="", machine={}, versions={}
    )
    header.check_same_run("smollm2", quick=True)
    with pytest.raises(ConfigError, match="quick run of smollm2"):
        header.check_same_run("smollm2", quick=False)
    with pytest.raises(ConfigError, match="quick run of smollm2"):
        header.check_same_run("other", quick=True)


def test_a_problem_is_open_until_its_case_was_measured_again():
    broken, other = record("replay/4", problem="died"), record("decode/100", problem="slow")
    assert open_problems([broken, other]) == [broken, other]
    assert open_problems([broken, other, record("replay/4", 1.0)]) == [other]
