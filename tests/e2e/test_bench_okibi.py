"""The replay against okibi's own HTTP server: real link, real replica, checking executor."""

import asyncio
import io

import pytest
from rich.console import Console

from okibi.bench.replay_options import ReplayOptions
from okibi.bench.run import run_replay
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.trace import encode_trace
from okibi.core.clock import WallClock
from tests.support.bench_reports import doubts
from tests.support.serving import Setup, running_server

SMALL = SyntheticConfig(
    num_turns=4,
    tool_tokens=64,
    system_tokens=64,
    task_tokens=40,
    tool_result_tokens=40,
    output_tokens=6,
    tool_gap_s=0.05,
    think_gap_s=0.1,
    fork_probability=0.3,
    subagent_probability=0.3,
)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_sessions_are_served_without_error_and_hit_what_they_can(tmp_path, concurrency):
    for index in range(3):
        trace = generate_trace(SMALL, index)
        (tmp_path / f"{trace.id}.json").write_bytes(encode_trace(trace))
    with running_server(Setup(num_pages=4096, replica={"max_model_len": 32768})) as server:
        options = ReplayOptions(
            traces=tmp_path, url=server.url, concurrency=concurrency, time_scale=0.1
        )
        run = asyncio.run(run_replay(options, WallClock(), Console(file=io.StringIO())))
        num_prompt = server.metric("vllm:prompt_tokens_total")
    metrics = run.report.metrics
    assert metrics.errors == {}
    assert metrics.num_ok == run.report.workload["num_turns"]
    assert metrics.num_osl_mismatches == 0
    assert metrics.input_tokens == num_prompt
    assert metrics.reusable_share is not None
    assert metrics.measured_hit_share == pytest.approx(metrics.reusable_share, abs=0.08)
    assert doubts(run.report) == []
