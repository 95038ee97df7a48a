"""Plays the sessions of agents against one server, with the parts of `okibi bench replay`.

All peers get the same text in a run, counted with the model's tokenizer file; rounds and cases
have texts of their own, so no cache knows one from another. Must never compute a percentile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import aiohttp

from benchmarks.peers.agents import sessions
from benchmarks.peers.cases import ReplayCase
from benchmarks.peers.servers import MODEL_NAME
from benchmarks.peers.speed import UnusableResult
from okibi.bench.metrics import ReplayMetrics, compute_metrics
from okibi.bench.replay.client import StreamClient
from okibi.bench.replay.driver import ReplayDriver
from okibi.bench.replay.player import Player, PlayerConfig
from okibi.bench.replay.records import RequestRecord
from okibi.bench.replay.scheduler import ReplayConfig, ReplayScheduler
from okibi.bench.text.counting import FileTokenCounter
from okibi.bench.text.synthesis import TextSynthesizer
from okibi.bench.text.vocabulary import measured_vocabulary
from okibi.core.clock import Clock

STOPPED = "stopped_after_s"
"""Stands for all figures of a replay that was stopped at its limit."""

_AT_LIMIT = "limit"
_NO_TIMEOUT_S = 86_400.0


class Replays:
    """Replays against one server."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, tokenizer: Path, clock: Clock
    ) -> None:
        """`tokenizer` is the model's file, or the folder that holds it."""
        self._session = session
        self._endpoint = f"{url}/v1/chat/completions"
        self._tokenizer = tokenizer
        self._clock = clock

    async def play(self, case: ReplayCase, key: str) -> dict[str, float]:
        """Figures of one replay, its text made from `key`. Raises UnusableResult."""
        counter = FileTokenCounter(self._tokenizer)
        vocabulary = await measured_vocabulary(counter, str(self._tokenizer))
        config = ReplayConfig(concurrency=case.concurrency, time_scale=0.0)
        scheduler = ReplayScheduler(sessions(case), config)
        records: list[RequestRecord] = []
        driver = ReplayDriver(
            scheduler,
            Player(
                StreamClient(self._session, self._endpoint, self._clock, _NO_TIMEOUT_S),
                TextSynthesizer(vocabulary, seed=crc32(key.encode())),
                PlayerConfig(model=MODEL_NAME, run_id=key),
            ),
            self._clock,
            grace_s=0.0,
            on_record=records.append,
        )
        timer = asyncio.get_running_loop().call_later(case.limit_s, driver.stop_now, _AT_LIMIT)
        try:
            await driver.run()
        finally:
            timer.cancel()
        return replay_figures(records, scheduler.stop_reason, case.limit_s)


def replay_figures(
    records: Sequence[RequestRecord], stop_reason: str | None, limit_s: float
) -> dict[str, float]:
    """Figures of a finished replay; of one stopped at its limit only that it was.

    Raises UnusableResult if a request failed or a reply was not as long as asked for.
    """
    metrics = compute_metrics(records)
    if metrics.errors:
        raise UnusableResult(f"{metrics.num_failed} of {len(records)} failed: {metrics.errors}")
    if metrics.num_osl_mismatches:
        raise UnusableResult(f"{metrics.num_osl_mismatches} replies had another length than asked")
    if stop_reason == _AT_LIMIT:
        return {STOPPED: limit_s}
    if stop_reason is not None:
        raise UnusableResult(f"the replay ended early: {stop_reason}")
    return {name: value for name, value in _figures(metrics).items() if value is not None}


def _figures(metrics: ReplayMetrics) -> dict[str, float | None]:
    """The median user's speed is that of the median gap between tokens; p10 is the slow tail."""
    gap_s = metrics.itl_s.p50
    return {
        "wall_s": metrics.wall_s,
        "ttft_p50_s": metrics.ttft_s.p50,
        "ttft_p90_s": metrics.ttft_s.p90,
        "user_tok_per_s_p50": 1.0 / gap_s if gap_s else None,
        "user_tok_per_s_p10": metrics.interactivity_p90,
        "output_tok_per_s": metrics.output_tokens_per_s,
        "cached_share": metrics.measured_hit_share,
    }
