"""Host cost of starting a request that hits a long cached conversation.

Run with `.venv/bin/python -m benchmarks.kv_manager`. Measures, after a look-up, what lies between
the KV-cache manager and the executor: hold the hit, hand over its block table, build the plan,
encode it and decode it again. Medians of 201 rounds, on one core and without an executor.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from okibi.control.scheduler.plan_builder import PlanBuilder
from okibi.core.chain_hash import root_digest
from okibi.core.ids import RequestId, StepId
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.token_source import PackedTokens, TokenSequence
from okibi.kvcache.layout_solver import solve_layout
from okibi.kvcache.manager import KVCacheManager
from okibi.sim.plan_codec import decode_plan, encode_plan

NUM_TOKENS, BLOCK_TOKENS, NUM_PAGES = 142_000, 16, 10_000
NUM_ROUNDS = 201


class Stopwatch:
    """Times of named pieces, in microseconds."""

    def __init__(self) -> None:
        self.times_us: dict[str, list[float]] = {}

    @contextmanager
    def piece(self, name: str) -> Iterator[None]:
        started_ns = perf_counter_ns()
        yield
        self.times_us.setdefault(name, []).append((perf_counter_ns() - started_ns) / 1000)


def make_sequence(num_tokens: int) -> TokenSequence:
    prompt = PackedTokens.of(position % 30_000 for position in range(num_tokens))
    return TokenSequence(prompt, unit=BLOCK_TOKENS, root=root_digest("model", ""))


def make_warm_manager() -> KVCacheManager:
    spec = FullAttentionSpec(layer=0, num_kv_heads=1, head_dim=8, dtype=KVDType.FLOAT32)
    layout = solve_layout(
        [spec], block_tokens=BLOCK_TOKENS, prefix_match_unit=BLOCK_TOKENS, num_pages=NUM_PAGES
    )
    manager = KVCacheManager(layout)
    sequence = make_sequence(NUM_TOKENS)
    allocation = manager.begin(manager.match(sequence), 0.0)
    manager.grow(allocation, NUM_TOKENS)
    manager.end(allocation, sequence, NUM_TOKENS, 0.0)
    return manager


def main() -> None:
    manager, sequence, watch = make_warm_manager(), make_sequence(NUM_TOKENS + 100), Stopwatch()
    sequence.digests()
    for turn in range(NUM_ROUNDS):
        with watch.piece("match"):
            match = manager.match(sequence)
        with watch.piece("begin"):
            allocation = manager.begin(match, float(turn))
        with watch.piece("block_tables"):
            tables = manager.block_tables(allocation)
        with watch.piece("build the plan"):
            builder = PlanBuilder(StepId(turn))
            builder.extend_tables(RequestId("turn"), tables)
            plan = builder.build(()).plan
        with watch.piece("encode"):
            packed = encode_plan(plan)
        with watch.piece("decode"):
            decode_plan(packed)
        manager.end(allocation, sequence, match.num_tokens, float(turn))
    print("| piece | median, µs |\n|---|---:|")
    for name, times_us in watch.times_us.items():
        print(f"| {name} | {statistics.median(times_us):,.1f} |")


if __name__ == "__main__":
    main()
