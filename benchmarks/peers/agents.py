"""The agents of a replay: their sessions, and how much KV memory those are given.

Pure. Sessions share tools and system prompt; some turns fork workers that share the context so
far, or start a subagent. A suite's KV memory holds about half of what its sessions read, so that
what an engine keeps decides; it is the same for every peer and whatever cases are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.peers.cases import SLOT_CONTEXT, Case, ReplayCase
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.trace import BLOCK_TOKENS
from okibi.bench.workload.tree import SessionTree, build_tree

MAX_CONTEXT = 6144
"""Largest recorded prompt plus reply of a session, chat template excluded."""

TEMPLATE_ROOM = 512
"""Tokens that the chat template may add to a prompt."""

MIN_KV_TOKENS = 2 * SLOT_CONTEXT
"""What the cases before the replay need: one long request, or 32 short ones."""

_KV_UNIT = 256


def sessions(case: ReplayCase) -> list[SessionTree]:
    """The sessions of a case; concurrency does not change them."""
    config = SyntheticConfig(
        num_sessions=case.num_sessions,
        num_turns=case.num_turns,
        tool_tokens=768,
        system_tokens=256,
        task_tokens=550,
        tool_result_tokens=300,
        output_tokens=64,
        fork_probability=0.25,
        subagent_probability=0.05,
        max_context_tokens=MAX_CONTEXT,
    )
    return [build_tree(generate_trace(config, index)) for index in range(case.num_sessions)]


def num_distinct_tokens(trees: Iterable[SessionTree]) -> int:
    """Tokens of all different blocks that the sessions' prompts have; ends of prompts left out."""
    blocks = {
        (tree.system_scope if block in tree.system_ids else tree.trace_id, block)
        for tree in trees
        for node in tree.nodes
        for block in node.call.hash_ids
    }
    return len(blocks) * BLOCK_TOKENS


def kv_tokens(suite: Sequence[Case]) -> int:
    """Tokens of KV memory for every server of a suite."""
    replays = [case for case in suite if isinstance(case, ReplayCase)]
    half = max((num_distinct_tokens(sessions(case)) // 2 for case in replays), default=0)
    return max(MIN_KV_TOKENS, half // _KV_UNIT * _KV_UNIT)
