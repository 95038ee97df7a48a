"""A session as a graph of turns: which call may start when.

`build_tree` turns a trace into conversations (the main agent, inferred forks `::fa:`, subagents
`::sa:`) and end-to-start edges between their turns. A turn starts when every edge allows it:
`end(before) + gap_s`. Edges always point forward in recorded time. Must never know about servers,
text or the wall clock; the replay and a simulation walk the same graph.

Semantics follow agentx-harness 1.0.12 (Apache-2.0): a child starts after the parent turn before
it, at its offset from the earliest child of the same spawn; the first parent turn recorded after
the child's end waits for it; a child that outlives every parent turn gates nothing; a child
before the first parent turn is dropped; calls of different agents of one scope keep the order in
which they were recorded not to overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.workload.chains import PlacedCall, shared_prefix
from okibi.bench.workload.dependencies import Edge, link_streams
from okibi.bench.workload.prefix_hits import HitBlocks, count_prefix_hits
from okibi.bench.workload.prompt_layout import PromptLayout, first_layout, fork_layout, next_layout
from okibi.bench.workload.streams import Stream, split_streams
from okibi.bench.workload.trace import Call, Trace, TraceError


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnNode:
    """One call of a session tree; `index` is its place in `SessionTree.nodes`."""

    index: int
    conversation: str
    turn: int
    depth: int
    call: Call
    layout: PromptLayout
    after: tuple[Edge, ...]
    hits: HitBlocks


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionTree:
    """One playable session. `nodes` lists conversations one after another, turns in order.

    `system_scope` names the text that the session's system blocks (`system_ids`) share with other
    sessions of the same scope; None keeps them private to the session.
    """

    trace_id: str
    nodes: tuple[TurnNode, ...]
    system_ids: frozenset[int]
    system_scope: str | None
    num_dropped_subagents: int

    @property
    def peak_context_tokens(self) -> int:
        """Largest recorded prompt plus reply."""
        return max(n.call.num_input_tokens + n.call.num_output_tokens for n in self.nodes)

    def text_scope(self, block: int) -> str:
        """Within which a block's id names its text: the session, or all that share its system."""
        if self.system_scope and block in self.system_ids:
            return f"scope:{self.system_scope}"
        return f"trace:{self.trace_id}"


def build_tree(trace: Trace) -> SessionTree:
    """Infer agents, edges, message layouts and prefix hits of one trace.

    Raises TraceError if the waits are circular (broken timestamps).
    """
    split = split_streams(trace)
    edges = link_streams(split.streams)
    hits = count_prefix_hits(split.streams)
    layouts = _layouts(split.streams)
    nodes: list[TurnNode] = []
    for stream in split.streams:
        for turn, placed in enumerate(stream.calls):
            index = len(nodes)
            nodes.append(
                TurnNode(
                    index=index,
                    conversation=stream.conversation,
                    turn=turn,
                    depth=stream.depth,
                    call=placed.call,
                    layout=layouts[index],
                    after=tuple(edges[index]),
                    hits=hits[index],
                )
            )
    _check_acyclic(trace.id, nodes)
    main = split.streams[0]
    return SessionTree(
        trace_id=trace.id,
        nodes=tuple(nodes),
        system_ids=frozenset(main.calls[0].call.hash_ids[: main.num_system_blocks]),
        system_scope=_system_scope(trace),
        num_dropped_subagents=split.num_dropped_subagents,
    )


def _layouts(streams: Sequence[Stream]) -> list[PromptLayout]:
    """Layouts of every node. A fork's source is always in a stream before it."""
    layouts: list[PromptLayout] = []
    by_call: dict[tuple[str, int], PromptLayout] = {}
    for stream in streams:
        previous: tuple[PlacedCall, PromptLayout] | None = None
        for placed in stream.calls:
            if previous is not None:
                layout = _next(previous[1], previous[0], placed)
            elif stream.forked_from is not None:
                source = by_call[stream.scope, stream.forked_from]
                layout = fork_layout(source, placed.call, stream.num_shared_blocks)
            else:
                layout = first_layout(placed.call, stream.num_system_blocks)
            previous = (placed, layout)
            by_call[stream.scope, placed.order] = layout
            layouts.append(layout)
    return layouts


def _next(layout: PromptLayout, previous: PlacedCall, current: PlacedCall) -> PromptLayout:
    shared = shared_prefix(previous.call.hash_ids, current.call.hash_ids)
    return next_layout(layout, previous.call, current.call, shared)


def _system_scope(trace: Trace) -> str | None:
    scope = (trace.totals or {}).get("system_scope")
    return scope if isinstance(scope, str) else None


def _check_acyclic(trace_id: str, nodes: list[TurnNode]) -> None:
    num_waiting = [len(node.after) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for node in nodes:
        for edge in node.after:
            followers[edge.before].append(node.index)
    ready = [node.index for node in nodes if not node.after]
    num_done = 0
    while ready:
        num_done += 1
        for follower in followers[ready.pop()]:
            num_waiting[follower] -= 1
            if num_waiting[follower] == 0:
                ready.append(follower)
    if num_done != len(nodes):
        raise TraceError(
            f"session {trace_id!r} has calls that wait for each other; check its times"
        )
