"""Theoretical prefix-cache hits: what an unbounded cache would hit in recorded order.

Per session and block: a call's hits are its leading ids that the session has sent before, in time
order over all its conversations. Definition as in agentx-harness and the traces' own tooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.workload.streams import Stream


@dataclass(frozen=True, slots=True)
class HitBlocks:
    """Blocks of one prompt: how many an unbounded cache holds already, and how many there are."""

    num_hit: int
    num_total: int


def count_prefix_hits(streams: Sequence[Stream]) -> list[HitBlocks]:
    """Hits of every node, numbered over the streams as listed."""
    timeline: list[tuple[float, int, int, list[int]]] = []
    node = 0
    for number, stream in enumerate(streams):
        for placed in stream.calls:
            timeline.append((placed.call.t, number, node, placed.call.hash_ids))
            node += 1
    hits = [HitBlocks(0, 0)] * node
    seen: set[int] = set()
    for _, _, index, ids in sorted(timeline, key=lambda item: item[:3]):
        num_hit = next((i for i, block in enumerate(ids) if block not in seen), len(ids))
        hits[index] = HitBlocks(num_hit, len(ids))
        seen.update(ids)
    return hits
