"""What a workload holds, in numbers: printed when it is written and kept in every report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.workload.tree import SessionTree


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadSummary:
    """Counts over all sessions, each played once. `*_tokens` are recorded ones, no template."""

    num_sessions: int
    num_turns: int
    num_forks: int
    num_subagents: int
    num_dropped_subagents: int
    input_tokens: int
    output_tokens: int
    peak_context_tokens: int
    theoretical_hit_share: float


def summarize(trees: Sequence[SessionTree]) -> WorkloadSummary:
    """Numbers of a non-empty workload."""
    nodes = [node for tree in trees for node in tree.nodes]
    children = [node.conversation for node in nodes if node.turn == 0 and node.depth > 0]
    num_forks = sum(":fa:" in name for name in children)
    num_blocks = sum(node.hits.num_total for node in nodes)
    return WorkloadSummary(
        num_sessions=len(trees),
        num_turns=len(nodes),
        num_forks=num_forks,
        num_subagents=len(children) - num_forks,
        num_dropped_subagents=sum(tree.num_dropped_subagents for tree in trees),
        input_tokens=sum(node.call.num_input_tokens for node in nodes),
        output_tokens=sum(node.call.num_output_tokens for node in nodes),
        peak_context_tokens=max(tree.peak_context_tokens for tree in trees),
        theoretical_hit_share=sum(node.hits.num_hit for node in nodes) / max(1, num_blocks),
    )
