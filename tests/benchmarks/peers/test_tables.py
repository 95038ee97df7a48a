"""What a person and a machine are shown of a run."""

import io
import json

from rich.console import Console

from benchmarks.peers.records import CaseRecord, RunHeader
from benchmarks.peers.summary import figures
from benchmarks.peers.tables import print_run, to_json
from benchmarks.peers.targets import TARGETS

HEADER = RunHeader(
    model="smollm2", quick=False, nonce="n", started="", okibi="", machine={}, versions={}
)


def record(number: int, variant: str, value: float, **changes) -> CaseRecord:
    fields = {"round": number, "variant": variant, "case": "prefill/512"}
    return CaseRecord(**{**fields, "values": {"tok_per_s": [value]}, **changes})


RECORDS = [
    record(1, "okibi-bf16", 6000.0),
    record(2, "okibi-bf16", 8000.0),
    record(1, "vllm-bf16", 2000.0, foreign_cpu=0.5),
    record(2, "vllm-bf16", 2000.0),
    record(1, "llamacpp-q4_1", 0.0, values={}, problem="HTTP 500"),
]


def shown(records: list[CaseRecord]) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_run(records, figures(records), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_person_sees_figures_with_their_doubts_and_verdicts():
    text = shown(RECORDS)
    assert "7,000 ±14%" in text
    assert "2,000* ±0%" in text
    (row,) = [line for line in text.splitlines() if "prefill/512" in line and "/ vllm" in line]
    assert "≥ 1.5" in row
    assert "3.50" in row
    assert "3.00 - 4.00" in row
    assert "met " in row
    assert "problem: round 1, llamacpp-q4_1, prefill/512: HTTP 500" in text


def test_a_target_without_figures_is_not_measured():
    assert shown(RECORDS[:2]).count("not measured") == len(TARGETS)


def test_a_machine_gets_the_same():
    content = json.loads(to_json(HEADER, RECORDS, figures(RECORDS)))
    assert content["run"]["model"] == "smollm2"
    vllm = content["figures"][1]
    assert (vllm["variant"], vllm["value"], vllm["disturbed"]) == ("vllm-bf16", 2000.0, True)
    target = content["targets"][0]
    assert (target["ratio"]["value"], target["verdict"], target["tie"]) == (3.5, "met", False)
    assert content["targets"][1]["ratio"] is None
    assert [each["problem"] for each in content["problems"]] == ["HTTP 500"]
