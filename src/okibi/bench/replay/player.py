"""Turns a dispatch into a request and its outcome into a record.

Owns what a play needs beyond the scheduler: message text, the cache-bust marker, ids for headers,
and the account of what this run has already sent. Must never decide when something starts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from okibi.bench.replay.client import StreamRequest
from okibi.bench.replay.records import RequestRecord, RequestResult
from okibi.bench.replay.scheduler import Dispatch
from okibi.bench.text.synthesis import SessionText, TextSynthesizer
from okibi.bench.workload.tree import SessionTree, TurnNode


class ChatSender(Protocol):
    """Anything that answers a chat request with a timed result."""

    async def stream(self, request: StreamRequest) -> RequestResult:
        """Send one request and wait for its end."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayerConfig:
    """`run_id` makes this run's markers and ids its own; equal run ids repeat the same bytes."""

    model: str
    run_id: str
    cache_bust: bool = True


@dataclass(slots=True)
class _Play:
    text: SessionText
    marker: str


class Player:
    """Sends the requests of a replay."""

    def __init__(
        self, sender: ChatSender, synthesizer: TextSynthesizer, config: PlayerConfig
    ) -> None:
        self._sender = sender
        self._synthesizer = synthesizer
        self._config = config
        self._plays: dict[int, _Play] = {}
        self._sent_blocks: set[tuple[str, int]] = set()

    async def send(self, dispatch: Dispatch) -> RequestRecord:
        """Send one request and wait for its end. Never raises for what a server does."""
        node, live = dispatch.node, dispatch.live
        play = self._play(live.tree, live.play)
        correlation_id = _digest(self._config.run_id, str(live.play), node.conversation)[:32]
        num_reusable = self._note_sent(live.tree, node, play.marker)
        result = await self._sender.stream(
            StreamRequest(
                body=_body(self._config.model, play.text, node),
                headers=_headers(correlation_id, node.turn),
            )
        )
        return RequestRecord(
            trace_id=live.tree.trace_id,
            play=live.play,
            lane=live.lane,
            conversation=node.conversation,
            turn=node.turn,
            depth=node.depth,
            correlation_id=correlation_id,
            due_s=dispatch.due_s,
            recorded_input_tokens=node.call.num_input_tokens,
            recorded_output_tokens=node.call.num_output_tokens,
            theoretical_hit_blocks=node.hits.num_hit,
            theoretical_total_blocks=node.hits.num_total,
            num_reusable_blocks=num_reusable,
            result=result,
        )

    def forget(self, play: int) -> None:
        """Release the text of a drained play."""
        self._plays.pop(play, None)

    def _play(self, tree: SessionTree, number: int) -> _Play:
        play = self._plays.get(number)
        if play is None:
            marker = ""
            if self._config.cache_bust:
                digest = _digest(self._config.run_id, str(number), tree.trace_id)[:12]
                marker = f"[rid:{digest}]\n\n"
            play = _Play(text=SessionText(tree, self._synthesizer, marker), marker=marker)
            self._plays[number] = play
        return play

    def _note_sent(self, tree: SessionTree, node: TurnNode, marker: str) -> int:
        """Leading blocks of this prompt that the run has sent before; then add this prompt's."""
        segments = node.layout.segments
        num_system = segments[0].num_blocks if segments[0].role == "system" else 0
        ids = node.call.hash_ids[: node.layout.num_blocks]
        keys: list[tuple[str, int]] = []
        for position, block in enumerate(ids):
            scope = tree.text_scope(block)
            keys.append((scope if position < num_system else f"{marker}{scope}", block))
        known = self._sent_blocks
        num_reusable = next((i for i, key in enumerate(keys) if key not in known), len(keys))
        known.update(keys)
        return num_reusable


def _body(model: str, text: SessionText, node: TurnNode) -> dict[str, object]:
    return {
        "model": model,
        "messages": text.messages(node),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": max(1, node.call.num_output_tokens),
        "ignore_eos": True,
    }


def _headers(correlation_id: str, turn: int) -> dict[str, str]:
    return {
        "X-Request-ID": f"{correlation_id}-{turn}",
        "X-Correlation-ID": correlation_id,
        "X-Session-ID": correlation_id,
    }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
