"""The working set against a count by hand, and the memory that goes with it."""

from benchmarks.peers.agents import (
    MAX_CONTEXT,
    MIN_KV_TOKENS,
    TEMPLATE_ROOM,
    kv_tokens,
    num_distinct_tokens,
    sessions,
)
from benchmarks.peers.cases import FULL, QUICK, SLOT_CONTEXT, ReplayCase
from okibi.bench.workload.summary import summarize

REPLAYS = [case for case in FULL if isinstance(case, ReplayCase)]


def test_sessions_fork_and_fit_the_context():
    summary = summarize(sessions(REPLAYS[0]))
    assert summary.num_sessions == 16
    assert summary.num_forks > 16
    assert summary.peak_context_tokens <= MAX_CONTEXT
    assert MAX_CONTEXT + TEMPLATE_ROOM <= SLOT_CONTEXT


def test_concurrency_does_not_change_the_sessions():
    few, many = (sessions(case) for case in REPLAYS)
    assert few == many


def test_a_shared_block_counts_once_and_others_once_a_session():
    trees = sessions(REPLAYS[0])[:3]
    alone = [num_distinct_tokens([tree]) for tree in trees]
    shared = 64 * len(trees[0].system_ids)
    assert shared > 0
    assert num_distinct_tokens(trees) == sum(alone) - 2 * shared


def test_the_memory_holds_about_half():
    half = num_distinct_tokens(sessions(REPLAYS[0])) / 2
    assert half - 256 < kv_tokens(FULL) <= half
    assert kv_tokens(QUICK) == MIN_KV_TOKENS
