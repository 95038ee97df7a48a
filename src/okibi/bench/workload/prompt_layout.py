"""How the blocks of a recorded prompt are split into chat messages.

     blocks   0 .. S-1     S ..........              ......................   tail
     roles    system       user (first request)      assistant | user | ...   user

A layout is counts only; ids and text stay elsewhere. The recorded reply of a turn appears in the
next prompt as `ceil(out / 64)` assistant blocks, whatever the live server answered. A split once
made is kept by every later turn, so that prompts of one conversation stay prefixes of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from okibi.bench.workload.trace import BLOCK_TOKENS, Call

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Segment:
    """`num_blocks` consecutive blocks of one message."""

    role: Role
    num_blocks: int


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """Messages of one prompt in order; `num_tail_tokens` end the last one, which is a user's.

    Sum of blocks x 64 plus tail = the call's recorded prompt tokens.
    """

    segments: tuple[Segment, ...]
    num_tail_tokens: int

    @property
    def num_blocks(self) -> int:
        """Blocks with a recorded id."""
        return sum(segment.num_blocks for segment in self.segments)


def covered_blocks(call: Call) -> int:
    """Whole blocks of the prompt that carry an id."""
    return min(len(call.hash_ids), call.num_input_tokens // BLOCK_TOKENS)


def first_layout(call: Call, num_system_blocks: int) -> PromptLayout:
    """Layout of a conversation's first prompt: one system message, then one user message."""
    covered = covered_blocks(call)
    num_system = min(num_system_blocks, covered)
    segments = [Segment("system", num_system), Segment("user", covered - num_system)]
    return _finish(segments, call)


def fork_layout(source: PromptLayout, call: Call, shared: int) -> PromptLayout:
    """Layout of a fork's first prompt: the messages of its source, cut at `shared` blocks, go on
    as a user's. Keeping the roles is what makes the shared blocks a shared prefix on the wire."""
    kept = _truncate(source.segments, shared)
    num_new = max(0, covered_blocks(call) - sum(segment.num_blocks for segment in kept))
    return _finish([*kept, Segment("user", num_new)], call)


def next_layout(
    previous: PromptLayout, previous_call: Call, call: Call, shared: int
) -> PromptLayout:
    """Layout of the next prompt, which shares its first `shared` blocks with the previous one."""
    kept = _truncate(previous.segments, shared)
    num_new = max(0, covered_blocks(call) - sum(segment.num_blocks for segment in kept))
    num_reply = min(-(-previous_call.num_output_tokens // BLOCK_TOKENS), num_new)
    if not any(segment.role == "user" for segment in kept):
        num_reply = 0  # the cut removed every request: a reply to nothing cannot be shown
    if num_reply == num_new and _tail_tokens(call) == 0:
        num_reply = max(0, num_reply - 1)  # the last message must be the user's
    return _finish(
        [*kept, Segment("assistant", num_reply), Segment("user", num_new - num_reply)], call
    )


def _truncate(segments: tuple[Segment, ...], num_blocks: int) -> list[Segment]:
    kept: list[Segment] = []
    for segment in segments:
        room = num_blocks - sum(item.num_blocks for item in kept)
        if room <= 0:
            break
        kept.append(Segment(segment.role, min(segment.num_blocks, room)))
    return kept


def _finish(segments: list[Segment], call: Call) -> PromptLayout:
    """Drop empty segments, join equal neighbours, make sure that the user speaks last."""
    joined: list[Segment] = []
    for segment in segments:
        if segment.num_blocks == 0:
            continue
        if joined and joined[-1].role == segment.role:
            joined[-1] = Segment(segment.role, joined[-1].num_blocks + segment.num_blocks)
        else:
            joined.append(segment)
    tail = _tail_tokens(call)
    if not joined or joined[-1].role != "user":
        joined = _end_with_user(joined, tail)
    return PromptLayout(tuple(joined), tail)


def _end_with_user(segments: list[Segment], tail: int) -> list[Segment]:
    if tail > 0:
        return [*segments, Segment("user", 0)]
    last = segments[-1]
    rest = [Segment(last.role, last.num_blocks - 1)] if last.num_blocks > 1 else []
    return [*segments[:-1], *rest, Segment("user", 1)]


def _tail_tokens(call: Call) -> int:
    return call.num_input_tokens - covered_blocks(call) * BLOCK_TOKENS
