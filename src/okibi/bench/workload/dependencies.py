"""End-to-start edges between the turns of a session.

Three kinds: the turn before in the same conversation (with the recorded gap), spawn and join of
children, and the recorded order of calls of different agents that did not overlap. Node numbers
count turns over the streams as listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.workload.streams import Stream
from okibi.bench.workload.trace import Call


@dataclass(frozen=True, slots=True)
class Edge:
    """The owner may start `gap_s` seconds after node `before` has ended."""

    before: int
    gap_s: float


@dataclass(frozen=True, slots=True)
class _PlacedNode:
    node: int
    stream: int
    call: Call


def link_streams(streams: Sequence[Stream]) -> list[list[Edge]]:
    """Edges of every node; `streams[0]` is the main conversation."""
    first_node = _first_nodes(streams)
    edges: list[list[Edge]] = [[] for _ in range(first_node[-1])]
    for number, stream in enumerate(streams):
        calls = [placed.call for placed in stream.calls]
        for turn in range(1, len(calls)):
            node = first_node[number] + turn
            gap = max(0.0, calls[turn].t - calls[turn - 1].end_t)
            edges[node].append(Edge(node - 1, gap))
    _add_spawns(streams, first_node, edges)
    _add_recorded_order(streams, first_node, edges)
    return edges


def _first_nodes(streams: Sequence[Stream]) -> list[int]:
    starts = [0]
    for stream in streams:
        starts.append(starts[-1] + len(stream.calls))
    return starts


def _add_spawns(streams: Sequence[Stream], first_node: list[int], edges: list[list[Edge]]) -> None:
    spawn_t: dict[tuple[int, int | None], float] = {}
    for stream in streams:
        if stream.spawn:
            key = (stream.spawn.parent_turn, stream.spawn.join_turn)
            spawn_t[key] = min(spawn_t.get(key, stream.spawn.start_t), stream.spawn.start_t)
    for number, stream in enumerate(streams):
        spawn = stream.spawn
        if spawn is None:
            continue
        group_t = spawn_t[spawn.parent_turn, spawn.join_turn]
        offset = max(0.0, stream.calls[0].call.t - group_t)
        edges[first_node[number]].append(Edge(spawn.parent_turn, offset))
        if spawn.join_turn is not None:
            edges[spawn.join_turn].append(Edge(first_node[number + 1] - 1, 0.0))


def _add_recorded_order(
    streams: Sequence[Stream], first_node: list[int], edges: list[list[Edge]]
) -> None:
    by_scope: dict[str, list[_PlacedNode]] = defaultdict(list)
    for number, stream in enumerate(streams):
        for turn, placed in enumerate(stream.calls):
            by_scope[stream.scope].append(
                _PlacedNode(first_node[number] + turn, number, placed.call)
            )
    for nodes in by_scope.values():
        if len({node.stream for node in nodes}) > 1:
            for target in nodes:
                frontier = _completed_frontier(nodes, target)
                known = {edge.before for edge in edges[target.node]}
                edges[target.node].extend(
                    Edge(node.node, 0.0) for node in frontier if node.node not in known
                )


def _completed_frontier(nodes: list[_PlacedNode], target: _PlacedNode) -> list[_PlacedNode]:
    """The last call of each other stream that had ended when `target` began, less those that
    another of them already waited for."""
    latest: dict[int, _PlacedNode] = {}
    for node in nodes:
        ended = node.call.t < target.call.t and node.call.end_t <= target.call.t
        if node.stream == target.stream or not ended:
            continue
        best = latest.get(node.stream)
        if best is None or (node.call.end_t, node.node) > (best.call.end_t, best.node):
            latest[node.stream] = node
    return [
        node
        for node in latest.values()
        if not any(
            node.call.t < later.call.t and node.call.end_t <= later.call.t
            for later in latest.values()
            if later is not node
        )
    ]
