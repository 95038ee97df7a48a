"""Replays small agent sessions with agentx-harness against a running server.

    python -m benchmarks.harness.run_agentx --url http://127.0.0.1:8000 --gguf MODEL.gguf

An independent client checks what okibi's own replay cannot: that a stranger is served without an
error and counts the tokens it recorded. Two runs: every session once (exact counts), and the
AgentX scenario cut short (its timing, warmup and cache-bust). The harness lives in its own
environment, by default `.venv.agentx`; nothing is fetched from a model hub.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

from benchmarks.harness.agentx_client import AgentxClient, Target
from benchmarks.harness.check_results import LaneFailure, check_one_pass, check_scenario
from benchmarks.harness.export_tokenizer import export_tokenizer
from okibi.bench.generate import GenerateOptions, write_traces

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run the lane; 0 if the server served every request as recorded."""
    options = _parse(arguments)
    work = options.work or Path(tempfile.mkdtemp(prefix="okibi-agentx-"))
    client = AgentxClient.install(options.environment)
    tokenizer = options.tokenizer
    if tokenizer is None:
        tokenizer = work / "tokenizer"
        export_tokenizer(options.gguf, tokenizer)
    traces = work / "traces"
    summary = write_traces(_small_sessions(traces, options.sessions, options.seed))
    print(
        f"{summary.num_turns} turns, {summary.num_forks} forks, {summary.num_subagents} subagents"
    )
    client.validate(traces)
    target = Target(
        url=options.url,
        model=options.model or _first_model(options.url),
        tokenizer=tokenizer.resolve(),
        traces=traces,
    )
    try:
        client.run_one_pass(target, work / "one-pass", num_sessions=options.sessions)
        print("one pass:", check_one_pass(work / "one-pass", traces), flush=True)
        client.run_scenario(target, work / "scenario", options.duration)
        print("scenario:", check_scenario(work / "scenario"), flush=True)
    except (LaneFailure, RuntimeError) as failure:
        print(f"FAILED (artifacts in {work}):\n{failure}", file=sys.stderr)
        return 1
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="name to send; the first one served if left out")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tokenizer", type=Path, help="folder with the model's tokenizer.json")
    source.add_argument("--gguf", type=Path, help="the model file, to export its tokenizer from")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv.agentx")
    parser.add_argument("--work", type=Path, help="folder for traces and artifacts")
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--duration", type=int, default=15, help="seconds of the scenario")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def _small_sessions(folder: Path, num_sessions: int, seed: int) -> GenerateOptions:
    """Sessions of a minute or less on a small CPU model, with forks and subagents in them."""
    return GenerateOptions(
        out_dir=folder,
        sessions=num_sessions,
        seed=seed,
        turns=6,
        tool_tokens=128,
        system_tokens=64,
        task_tokens=80,
        tool_result_tokens=96,
        output_tokens=16,
        tool_gap=0.1,
        think_gap=0.4,
        fork_probability=0.2,
        subagent_probability=0.3,
        max_context=2048,
    )


def _first_model(url: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
        return json.load(answer)["data"][0]["id"]


if __name__ == "__main__":
    raise SystemExit(main())
