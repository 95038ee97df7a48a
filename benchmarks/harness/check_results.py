"""What the harness's artifacts must say: no errors, nothing cut short, token counts as recorded.

The harness exits with 0 although requests failed, so every figure is read from its files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from okibi.bench.workload.load import LoadConfig, load_workload
from okibi.bench.workload.tree import TurnNode, build_tree

TEMPLATE_TOKENS_PER_MESSAGE = 12
"""Most that a chat template may add per message; a default system prompt counts as two."""


class LaneFailure(Exception):
    """The server did not serve the harness as it must; the message lists every finding."""


def check_one_pass(out: Path, traces: Path) -> str:
    """Every recorded turn served once, with its recorded output and prompt size."""
    trees = [build_tree(trace) for trace in load_workload(traces, LoadConfig()).traces]
    wanted = [node for tree in trees for node in tree.nodes]
    records = _records(out)
    summary = _summary(out)
    findings = _summary_findings(summary, num_requests=len(wanted))
    theirs, ours = summary["theoretical_prefix_cache_hit"]["avg"], _theoretical_percent(wanted)
    if abs(theirs - ours) > 0.01:
        findings.append(f"theoretical hit rate {theirs:.2f} %, okibi's replay says {ours:.2f} %")
    expected = sorted(_key(node) for node in wanted)
    served = sorted(_served(record) for record in records)
    if len(served) != len(expected):
        findings.append(f"{len(served)} requests recorded instead of {len(expected)}")
    findings += _count_findings(expected, served)
    _raise(findings)
    return f"{len(served)} requests, 0 errors, outputs as recorded, {_overhead(expected, served)}"


def check_scenario(out: Path) -> str:
    """The AgentX scenario ran to its end without a failed request."""
    summary = _summary(out)
    _raise(_summary_findings(summary, num_requests=None))
    count = summary["request_count"]["avg"]
    hit = summary.get("overall_usage_prompt_cache_read_pct", {}).get("avg")
    return f"{count:.0f} requests, 0 errors, {hit if hit is None else round(hit, 1)} % cached"


def _theoretical_percent(nodes: list[TurnNode]) -> float:
    num_hit = sum(node.hits.num_hit for node in nodes)
    return 100.0 * num_hit / sum(node.hits.num_total for node in nodes)


def _summary_findings(summary: dict[str, Any], num_requests: int | None) -> list[str]:
    findings: list[str] = []
    if summary.get("was_cancelled"):
        findings.append("the run was cancelled")
    for name in ("error_request_count", "context_overflow_count", "osl_mismatch_count"):
        count = summary.get(name, {}).get("avg", 0)
        if count:
            findings.append(f"{name} is {count:.0f}")
    served = summary["request_count"]["avg"]
    if served < 1 or (num_requests is not None and served != num_requests):
        findings.append(f"request_count is {served:.0f}, not {num_requests or 'at least 1'}")
    return findings


def _key(node: TurnNode) -> tuple[int, int, int]:
    """What identifies a served turn whatever the harness calls its conversations."""
    return node.call.num_output_tokens, node.call.num_input_tokens, len(node.layout.segments)


def _served(record: dict[str, Any]) -> tuple[int, int]:
    metrics = record["metrics"]
    return (
        int(metrics["output_sequence_length"]["value"]),
        int(metrics["input_sequence_length"]["value"]),
    )


def _count_findings(
    expected: list[tuple[int, int, int]], served: list[tuple[int, int]]
) -> list[str]:
    """Pair both lists in (output, input) order and compare."""
    findings: list[str] = []
    for (output, prompt, num_messages), (got_output, got_prompt) in zip(
        expected, served, strict=False
    ):
        room = (num_messages + 2) * TEMPLATE_TOKENS_PER_MESSAGE
        if got_output != output:
            findings.append(f"output of {got_output} tokens where {output} were recorded")
        elif not 0 <= got_prompt - prompt <= room:
            findings.append(f"prompt of {got_prompt} tokens where {prompt} were recorded")
    return findings


def _overhead(expected: list[tuple[int, int, int]], served: list[tuple[int, int]]) -> str:
    extra = [got[1] - want[1] for want, got in zip(expected, served, strict=True)]
    return f"prompts {min(extra)} to {max(extra)} tokens above the recorded ones (chat template)"


def _records(out: Path) -> list[dict[str, Any]]:
    lines = (out / "profile_export.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "profile_export_aiperf.json").read_text())


def _raise(findings: list[str]) -> None:
    if findings:
        raise LaneFailure("\n".join(findings[:20]))
