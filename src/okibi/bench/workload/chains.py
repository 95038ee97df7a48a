"""Separates interleaved calls into agents by what their prompts share.

Forks are not declared in the format: several agents of one session may be recorded as one flat
list. A call belongs to the chain whose last prompt it contains whole, once that call had ended and
on the same model. A call that shares only a proper prefix is either a new agent or the same agent
after its context was shortened (compaction); it is the same agent exactly when no call ever
returns to the longer state. Must never look at anything but ids, times and models.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from okibi.bench.workload.trace import Call

_EPSILON_S = 1e-6
_PREAMBLE_OUTPUT_TOKENS = 64
_SEAM_MAX_GAP_S = 3600.0
_SEAM_MIN_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedCall:
    """A call and its place in the session's time order, unique within one list."""

    order: int
    call: Call


@dataclass(slots=True)
class Chain:
    """One agent's calls in time order, and the prompt it split off, if any."""

    calls: list[PlacedCall]
    forked_from: PlacedCall | None = None
    shared_blocks: int = 0
    merged: bool = field(default=False, repr=False)

    @property
    def tail(self) -> PlacedCall | None:
        """The last call whose prompt is known."""
        return next((placed for placed in reversed(self.calls) if placed.call.hash_ids), None)


def shared_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix, by halving (slice equality runs in C)."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def infer_chains(placed: Sequence[PlacedCall]) -> list[Chain]:
    """Partition calls into chains: the main agent first, the others by their first call.

    `placed` is in time order. A leading one-shot that shares nothing with the session (a title,
    a warm-up) is kept on the main chain but does not found it.
    """
    preamble, rest = _split_preamble(placed)
    chains = _grow_chains(rest)
    _merge_compactions(chains)
    main, *others = [chain for chain in chains if not chain.merged]
    main.calls = [*preamble, *sorted(main.calls, key=lambda item: item.order)]
    return [main, *others]


def _split_preamble(
    placed: Sequence[PlacedCall],
) -> tuple[list[PlacedCall], list[PlacedCall]]:
    first, rest = placed[0], list(placed[1:])
    ids = first.call.hash_ids
    others = [item.call.hash_ids for item in rest if item.call.hash_ids]
    if not ids or not others or any(other[0] == ids[0] for other in others):
        return [], list(placed)
    known = {block for other in others for block in other}
    small = first.call.num_output_tokens <= _PREAMBLE_OUTPUT_TOKENS
    if not small and not known.isdisjoint(ids):
        return [], list(placed)
    return [first], rest


def _grow_chains(placed: Sequence[PlacedCall]) -> list[Chain]:
    chains: list[Chain] = []
    for item in placed:
        target = _chain_to_extend(chains, item)
        if target is not None:
            target.calls.append(item)
        else:
            chains.append(_fork(chains, item))
    return chains


def _chain_to_extend(chains: list[Chain], item: PlacedCall) -> Chain | None:
    ids = item.call.hash_ids
    if chains and (not ids or all(chain.tail is None for chain in chains)):
        return chains[0]
    best: Chain | None = None
    best_length = 0
    for chain in chains:
        tail = chain.tail
        if tail is None or not _may_follow(item.call, tail.call):
            continue
        length = len(tail.call.hash_ids)
        if length > best_length and ids[:length] == tail.call.hash_ids:
            best, best_length = chain, length
    return best


def _may_follow(call: Call, tail: Call) -> bool:
    return call.model == tail.model and tail.end_t <= call.t + _EPSILON_S


def _fork(chains: list[Chain], item: PlacedCall) -> Chain:
    """A new chain, split off the tail with which it shares most (ties: the longer tail)."""
    source: PlacedCall | None = None
    best = (0, 0)
    for chain in chains:
        if chain.tail is None:
            continue
        ids = chain.tail.call.hash_ids
        key = (shared_prefix(ids, item.call.hash_ids), len(ids))
        if key[0] > 0 and key > best:
            source, best = chain.tail, key
    return Chain([item], forked_from=source, shared_blocks=best[0])


def _merge_compactions(chains: list[Chain]) -> None:
    """Join each fork onto the chain it split from where the longer state was never used again."""
    owner = {item.order: chain for chain in chains for item in chain.calls}
    pending = sorted({chain.forked_from.order for chain in chains if chain.forked_from})
    while pending:
        order = heapq.heappop(pending)
        chain = owner[order]
        tail = chain.tail
        if tail is None or tail.order != order:
            continue
        forks = [c for c in chains if c.forked_from is tail and not c.merged]
        successor = _elect_successor(forks, tail.call)
        if successor is None:
            continue
        chain.calls.extend(successor.calls)
        successor.merged = True
        owner.update({item.order: chain for item in successor.calls})
        new_tail = chain.tail
        if new_tail is None:
            continue
        _refork([c for c in forks if c is not successor], new_tail)
        heapq.heappush(pending, new_tail.order)


def _refork(forks: list[Chain], tail: PlacedCall) -> None:
    for fork in forks:
        shared = shared_prefix(tail.call.hash_ids, fork.calls[0].call.hash_ids)
        if shared > 0:
            fork.forked_from, fork.shared_blocks = tail, shared


def _elect_successor(forks: list[Chain], tail: Call) -> Chain | None:
    """The fork that shares most with a dead tail; the earliest among equals.

    A fork that starts hours later and shares less than half is another session on the same system
    prompt, not a compaction.
    """
    candidates: list[Chain] = []
    for fork in forks:
        first = fork.calls[0].call
        late = first.t - tail.end_t > _SEAM_MAX_GAP_S
        if late and fork.shared_blocks < _SEAM_MIN_SHARE * len(tail.hash_ids):
            continue
        if fork.shared_blocks > 0 and _may_follow(first, tail):
            candidates.append(fork)
    return max(
        candidates,
        key=lambda fork: (fork.shared_blocks, -fork.calls[0].call.t, -fork.calls[0].order),
        default=None,
    )
