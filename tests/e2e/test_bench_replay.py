"""The whole replay over real sockets against a server that is not okibi."""

import asyncio
import io
import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from okibi.bench.http import ServerError
from okibi.bench.replay_options import ReplayOptions
from okibi.bench.run import ReplayRun, run_replay
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.trace import Trace, encode_trace
from okibi.bench.workload.tree import SessionTree, build_tree
from okibi.core.clock import WallClock
from tests.e2e.foreign_server import ForeignConfig, ForeignServer, foreign_server
from tests.support.bench_reports import doubts
from tests.unit.bench.traces import demo_trace

BUSY = SyntheticConfig(
    num_turns=8,
    tool_tokens=128,
    system_tokens=64,
    task_tokens=80,
    tool_result_tokens=90,
    output_tokens=8,
    tool_gap_s=0.05,
    think_gap_s=0.1,
    fork_probability=0.3,
    subagent_probability=0.3,
)
BUSY_TRACES = [generate_trace(BUSY, index) for index in range(4)]


@pytest.fixture(name="write")
def fixture_write(tmp_path):
    def write(*traces: Trace) -> Path:
        for trace in traces:
            (tmp_path / f"{trace.id}.json").write_bytes(encode_trace(trace))
        return tmp_path

    return write


def replay(folder: Path, url: str, **options: Any) -> ReplayRun:
    chosen = ReplayOptions(traces=folder, url=url, **options)
    return asyncio.run(run_replay(chosen, WallClock(), Console(file=io.StringIO())))


def tree_of(run: ReplayRun, trees: list[SessionTree]) -> dict[int, SessionTree]:
    by_id = {tree.trace_id: tree for tree in trees}
    return {record.play: by_id[record.trace_id] for record in run.records}


def check_waits(run: ReplayRun, trees: list[SessionTree], time_scale: float) -> None:
    """By the client's own record: every start lies after each end it waits for, plus the gap."""
    played = tree_of(run, trees)
    results = {(r.play, r.conversation, r.turn): r.result for r in run.records}
    for (play, conversation, turn), result in results.items():
        nodes = played[play].nodes
        node = next(n for n in nodes if (n.conversation, n.turn) == (conversation, turn))
        for edge in node.after:
            before = nodes[edge.before]
            end = results[play, before.conversation, before.turn].end_s
            assert result.start_s >= end + edge.gap_s * time_scale


def num_tokens_in_sequence(tree: SessionTree) -> int:
    """Tokens of the longest chain of replies that wait for each other."""
    lengths: dict[int, int] = {}

    def length(index: int) -> int:
        if index not in lengths:
            node = tree.nodes[index]
            before = max((length(edge.before) for edge in node.after), default=0)
            lengths[index] = before + node.call.num_output_tokens
        return lengths[index]

    return max(length(node.index) for node in tree.nodes)


def check_no_overlap(server: ForeignServer) -> None:
    """By the server's record: one conversation never has two requests at a time."""
    by_session = defaultdict(list)
    for seen in server.seen:
        by_session[seen.session].append(seen)
    for requests in by_session.values():
        for before, after in itertools.pairwise(requests):
            assert after.start >= before.end
            assert len(after.body["messages"]) >= len(before.body["messages"])


def test_the_demo_session_arrives_as_recorded(write):
    with foreign_server() as (url, server):
        run = replay(write(demo_trace()), url, time_scale=0.1, cache_bust=False)
    order = [
        (len(seen.body["messages"]), seen.body["max_completion_tokens"]) for seen in server.seen
    ]
    assert order == [(2, 20), (4, 24), (2, 8), (4, 8), (6, 16), (8, 16)]
    assert [r.conversation for r in run.records][2:4] == ["demo::sa:agent_001"] * 2
    template = [2 * messages + 1 for messages, _ in order]
    recorded = [400, 640, 384, 512, 832, 960]
    assert [seen.prompt_tokens for seen in server.seen] == [
        count + extra for count, extra in zip(recorded, template, strict=True)
    ]
    assert run.report.metrics.errors == {}
    assert run.report.metrics.num_osl_mismatches == 0
    assert run.report.metrics.output_tokens == 92
    assert run.report.metrics.theoretical_hit_share == pytest.approx(38 / 58)
    check_waits(run, [build_tree(demo_trace())], 0.1)


def test_requests_are_what_a_harness_would_send(write):
    with foreign_server() as (url, server):
        replay(write(demo_trace()), url, time_scale=0.0, model="foreign-1")
    for seen in server.seen:
        body = {key: value for key, value in seen.body.items() if key != "messages"}
        assert body == {
            "model": "foreign-1",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_completion_tokens": body["max_completion_tokens"],
            "ignore_eos": True,
        }
        assert seen.headers["x-session-id"] == seen.session
        assert seen.body["messages"][-1]["role"] == "user"
    requests = {seen.headers["x-request-id"] for seen in server.seen}
    assert len(requests) == 6
    assert len({seen.session for seen in server.seen}) == 2  # parent and subagent


@pytest.mark.parametrize("concurrency", [1, 3])
def test_busy_sessions_keep_every_wait_and_hit_what_they_can(write, concurrency):
    trees = [build_tree(trace) for trace in BUSY_TRACES]
    with foreign_server(ForeignConfig(token_s=0.001)) as (url, server):
        run = replay(write(*BUSY_TRACES), url, time_scale=0.5, concurrency=concurrency)
    metrics = run.report.metrics
    assert metrics.num_ok == sum(len(tree.nodes) for tree in trees)
    assert metrics.num_failed == metrics.num_osl_mismatches == 0
    check_waits(run, trees, 0.5)
    check_no_overlap(server)
    assert metrics.measured_hit_share == pytest.approx(
        sum(seen.cached_tokens for seen in server.seen)
        / sum(seen.prompt_tokens for seen in server.seen)
    )
    assert metrics.measured_hit_share == pytest.approx(metrics.reusable_share, abs=0.03)
    assert doubts(run.report) == []


def test_sessions_wait_for_a_slow_server(write):
    """Open-loop clients pile up on a slow server; one that waits takes each session's time."""
    trees = [build_tree(trace) for trace in BUSY_TRACES[:2]]
    token_s = 0.02
    with foreign_server(ForeignConfig(token_s=token_s)) as (url, server):
        run = replay(write(*BUSY_TRACES[:2]), url, time_scale=0.05, concurrency=2)
    check_no_overlap(server)
    check_waits(run, trees, 0.05)
    longest = max(num_tokens_in_sequence(tree) for tree in trees)
    assert run.report.metrics.wall_s >= 0.99 * longest * token_s


def test_the_second_run_of_one_job_is_flagged_or_new(write):
    folder = write(*BUSY_TRACES)
    with foreign_server() as (url, _):
        first, same = (
            replay(folder, url, time_scale=0.0, cache_bust=False).report for _ in range(2)
        )
    assert doubts(first) == []
    assert any("knew these prompts already" in warning for warning in same.warnings)
    private = [generate_trace(replace(BUSY, shared_system=False, seed=9), i) for i in range(4)]
    for trace in BUSY_TRACES:
        (folder / f"{trace.id}.json").unlink()
    write(*private)
    with foreign_server() as (url, _):
        first, marked, other_seed = (
            replay(folder, url, time_scale=0.0, seed=seed).report.metrics for seed in (0, 0, 1)
        )
    assert first.measured_hit_share is not None
    assert other_seed.measured_hit_share == pytest.approx(first.measured_hit_share, abs=0.05)
    assert marked.measured_hit_share is not None
    assert marked.measured_hit_share >= first.measured_hit_share  # system messages were known


def test_plays_of_one_session_differ_by_their_marker(write):
    with foreign_server() as (url, server):
        run = replay(write(demo_trace()), url, time_scale=0.0, concurrency=1, max_turns=12)
    assert run.report.stop_reason == "max_turns"
    assert not run.report.partial
    markers = {seen.body["messages"][1]["content"].split("\n")[0] for seen in server.seen}
    assert len(markers) == 2
    assert all(marker.startswith("[rid:") and len(marker) == 18 for marker in markers)
    assert len({seen.body["messages"][0]["content"] for seen in server.seen}) == 1
    starts = [record for record in run.records if record.depth == record.turn == 0]
    assert [record.num_reusable_blocks for record in starts] == [0, 3]  # the system message


def test_a_duration_ends_the_run_on_time_and_counts_as_planned(write):
    with foreign_server() as (url, _):
        run = replay(write(demo_trace()), url, time_scale=0.0, duration=2.0)
    assert (run.report.stop_reason, run.report.partial) == ("duration", False)
    assert run.report.metrics.num_sessions > 4
    assert run.report.metrics.wall_s < 60.0


def test_requests_beyond_the_grace_are_cut_off_not_failed(write):
    with foreign_server(ForeignConfig(stalls=lambda _: True)) as (url, _):
        run = replay(write(demo_trace()), url, duration=1.0, grace=1.0)
    assert run.report.metrics.num_cancelled == 4
    assert run.report.metrics.num_failed == 0


def refuse_some(number: int) -> tuple[int, str] | None:
    return {1: (500, "engine died"), 3: (429, "slow down")}.get(number)


def test_every_failure_has_its_kind(write):
    config = ForeignConfig(fails=refuse_some, breaks_stream=lambda number: number == 4)
    with foreign_server(config) as (url, _):
        run = replay(write(demo_trace()), url, time_scale=0.0)
    assert run.report.metrics.errors == {"http_429": 1, "http_500": 1, "stream_error": 1}
    assert run.report.metrics.num_ok == 3
    messages = [r.result.failure.message for r in run.records if r.result.failure]
    assert any("slow down" in message for message in messages)


def test_a_full_context_ends_its_session_and_nothing_else(write):
    with foreign_server(ForeignConfig(max_context=700)) as (url, server):
        run = replay(write(demo_trace()), url, time_scale=0.0)
    assert run.report.metrics.errors == {"context_overflow": 1}
    assert len(server.seen) == 5  # the fourth turn would only overflow again
    assert any("outgrow the model's context of 700" in w for w in run.report.warnings)


def test_too_many_errors_end_the_run(write):
    with foreign_server(ForeignConfig(fails=lambda _: (503, "draining"))) as (url, server):
        run = replay(write(*BUSY_TRACES), url, time_scale=0.0)
    assert (run.report.stop_reason, run.report.partial) == ("errors", True)
    assert len(server.seen) < 20


def test_a_request_without_an_end_times_out(write):
    with foreign_server(ForeignConfig(stalls=lambda _: True)) as (url, _):
        run = replay(write(demo_trace()), url, time_scale=0.0, timeout=0.2)
    assert set(run.report.metrics.errors) == {"timeout"}


def test_servers_may_lack_everything_optional(write):
    config = ForeignConfig(
        has_models=False, has_tokenize=False, sends_usage=False, honours_length=False
    )
    with foreign_server(config) as (url, _):
        with pytest.raises(ServerError, match="--model"):
            replay(write(demo_trace()), url)
        report = replay(write(demo_trace()), url, time_scale=0.0, model="any").report
    assert report.metrics.num_ok == 6
    assert report.options["token_counts"] == "assumed"
    assert report.metrics.ttft_s.p50 is not None
    assert any("no usage" in warning for warning in report.warnings)


def test_wrong_lengths_are_counted(write):
    with foreign_server(ForeignConfig(honours_length=False)) as (url, _):
        report = replay(write(demo_trace()), url, time_scale=0.0).report
    assert report.metrics.num_osl_mismatches == 6
    assert any("recorded length" in warning for warning in report.warnings)


def test_addresses_may_be_given_in_any_usual_form(write):
    folder = write(demo_trace())
    with foreign_server(ForeignConfig(api_key="secret")) as (url, _):
        for form in (url, f"{url}/", f"{url}/v1", f"{url}/v1/chat/completions"):
            run = replay(folder, form, time_scale=0.0, api_key="secret", max_turns=1)
            assert run.report.metrics.num_ok == 1
            assert "secret" not in run.report.to_json().decode()
        with pytest.raises(ServerError, match="--api-key"):
            replay(folder, url)
        with pytest.raises(ServerError, match="does not serve 'other'; it serves foreign-1"):
            replay(folder, url, model="other", api_key="secret")
    with pytest.raises(ServerError, match="cannot reach"):
        replay(folder, url)
    with pytest.raises(ServerError, match="not an address"):
        replay(folder, "localhost:8000")
