"""Splits a trace into conversations: main agent, inferred forks, subagents and their forks.

Owns names, spawn and join points and system prefixes. Must never decide when a turn starts; that
is `dependencies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okibi.bench.workload.chains import PlacedCall, infer_chains
from okibi.bench.workload.trace import BLOCK_TOKENS, Call, Subagent, Trace

_JOIN_EPSILON_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Spawn:
    """Where a child hangs on the main conversation (turn numbers of the main stream).

    `start_t` is the child's recorded spawn time; `join_turn` None means that nothing waits.
    """

    parent_turn: int
    join_turn: int | None
    start_t: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """One conversation in time order. `scope` groups streams whose recorded order is kept.

    `forked_from` is the call (its order within the scope) whose first `num_shared_blocks` blocks
    an inferred fork starts with; None for the main agent, subagents and unrelated calls.
    """

    conversation: str
    depth: int
    scope: str
    calls: tuple[PlacedCall, ...]
    num_system_blocks: int
    spawn: Spawn | None
    forked_from: int | None = None
    num_shared_blocks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitTrace:
    """Streams of a trace, main first, and the subagents that no parent turn could spawn."""

    streams: tuple[Stream, ...]
    num_dropped_subagents: int


def split_streams(trace: Trace) -> SplitTrace:
    """Partition a checked trace (it has at least one call of its own)."""
    requests = sorted(trace.requests, key=lambda request: request.t)
    placed = [
        PlacedCall(order=order, call=request)
        for order, request in enumerate(requests)
        if isinstance(request, Call)
    ]
    chains = infer_chains(placed)
    main_calls = tuple(chains[0].calls)
    num_system = _declared_blocks(trace.tool_tokens, trace.system_tokens)
    streams = [
        Stream(
            conversation=trace.id,
            depth=0,
            scope=trace.id,
            calls=main_calls,
            num_system_blocks=num_system,
            spawn=None,
        )
    ]
    num_dropped = 0
    children: list[Stream] = []
    for order, request in enumerate(requests):
        if not isinstance(request, Subagent):
            continue
        found = _subagent_streams(trace.id, request, order, main_calls)
        num_dropped += not found
        children.extend(found)
    for number, chain in enumerate(chains[1:]):
        calls = tuple(chain.calls)
        end_t = max(item.call.end_t for item in calls)
        streams.append(
            Stream(
                conversation=f"{trace.id}::fa:{number:03d}",
                depth=1,
                scope=trace.id,
                calls=calls,
                num_system_blocks=0,
                forked_from=chain.forked_from.order if chain.forked_from else None,
                num_shared_blocks=chain.shared_blocks,
                spawn=_place(main_calls, calls[0].order, calls[0].call.t, end_t)
                or Spawn(parent_turn=0, join_turn=None, start_t=calls[0].call.t),
            )
        )
    return SplitTrace(streams=(*streams, *children), num_dropped_subagents=num_dropped)


def _subagent_streams(
    trace_id: str, subagent: Subagent, order: int, main_calls: Sequence[PlacedCall]
) -> list[Stream]:
    spawn = _place(main_calls, order, subagent.t, subagent.end_t)
    calls = sorted(subagent.calls, key=lambda call: call.t)
    if spawn is None or not calls:
        return []
    scope = f"{trace_id}::sa:{subagent.agent_id}"
    chains = infer_chains([PlacedCall(order=i, call=call) for i, call in enumerate(calls)])
    num_system = _declared_blocks(subagent.tool_tokens, subagent.system_tokens)
    return [
        Stream(
            conversation=scope if number == 0 else f"{scope}:fa:{number - 1:03d}",
            depth=1,
            scope=scope,
            calls=tuple(chain.calls),
            num_system_blocks=num_system if number == 0 else 0,
            forked_from=chain.forked_from.order if number and chain.forked_from else None,
            num_shared_blocks=chain.shared_blocks if number else 0,
            spawn=spawn,
        )
        for number, chain in enumerate(chains)
    ]


def _place(
    main_calls: Sequence[PlacedCall], order: int, start_t: float, end_t: float
) -> Spawn | None:
    """Spawn and join turns of a child; None when no main turn comes before it."""
    before = [turn for turn, item in enumerate(main_calls) if item.order < order]
    if not before:
        return None
    join = next(
        (
            turn
            for turn, item in enumerate(main_calls)
            if item.order > order and item.call.t + _JOIN_EPSILON_S >= end_t
        ),
        None,
    )
    return Spawn(parent_turn=before[-1], join_turn=join, start_t=start_t)


def _declared_blocks(tool_tokens: int, system_tokens: int) -> int:
    return -(-(tool_tokens + system_tokens) // BLOCK_TOKENS)
