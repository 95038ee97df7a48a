"""One start of one server: its start-up time, then its cases, each recorded when it has ended.

What a server does wrong ends up in records, never in an exception: the next server is measured
all the same, and a resumed run tries again what has no values.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from benchmarks.peers.cases import Case
from benchmarks.peers.launch import RunningServer, ServerFailed, running
from benchmarks.peers.measure import Measurement
from benchmarks.peers.prompts import PromptSource
from benchmarks.peers.records import START_UP, CaseRecord
from benchmarks.peers.replays import Replays
from benchmarks.peers.rounds import ServerRun
from benchmarks.peers.servers import ServerSpec
from benchmarks.peers.speed import UnusableResult
from benchmarks.peers.usage import CpuMeter, memory_of
from okibi.bench.replay.client import StreamClient
from okibi.core.clock import Clock

REQUEST_TIMEOUT_S = 600.0

END_TIMEOUT_S = 5.0
"""A server that dies closes its connections some time before its process is gone."""

OnRecord = Callable[[CaseRecord], None]


class ServerSession:
    """Measures servers one at a time."""

    def __init__(
        self, prompts: PromptSource, tokenizer: Path, clock: Clock, on_record: OnRecord
    ) -> None:
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._clock = clock
        self._on_record = on_record

    async def try_start(self, spec: ServerSpec, log: Path) -> None:
        """Start and end a server unmeasured. Raises ServerFailed."""
        async with running(spec, log, self._clock):
            pass

    async def measure(
        self, run: ServerRun, spec: ServerSpec, log: Path, skipped: Set[str] = frozenset()
    ) -> None:
        """Measure the start and all cases but those named in `skipped`."""
        try:
            async with running(spec, log, self._clock) as server:
                await self._measure(run, server, [c for c in run.cases if c.name not in skipped])
        except ServerFailed as error:
            for case in run.cases:
                self._on_record(self._record(run, case.name, problem=str(error)))

    async def _measure(self, run: ServerRun, server: RunningServer, cases: list[Case]) -> None:
        async with self._measurement(server.url) as measurement:
            await self._first_token(run, server, measurement)
            for case in cases:
                meter = CpuMeter(server.pid)
                measured = await measurement.measure(case, run.round)
                foreign_cpu = meter.foreign_share()
                problems = list(dict.fromkeys(measured.problems))
                if problems:
                    server.wait_for_end(END_TIMEOUT_S)
                if not server.is_alive:
                    problems.append("the server has ended; its log may say why")
                record = self._record(
                    run,
                    case.name,
                    server=server,
                    values=dict(measured.values),
                    problem="; ".join(problems) or None,
                    foreign_cpu=foreign_cpu,
                )
                self._on_record(record)
                if not server.is_alive:
                    return

    async def _first_token(
        self, run: ServerRun, server: RunningServer, measurement: Measurement
    ) -> None:
        values = {"s": [server.ready_s - server.started_s]}
        problem = None
        try:
            token_s = await measurement.first_token(run.round)
            values["first_token_s"] = [token_s - server.started_s]
        except UnusableResult as error:
            problem = str(error)
        self._on_record(self._record(run, START_UP, server=server, values=values, problem=problem))

    @asynccontextmanager
    async def _measurement(self, url: str) -> AsyncIterator[Measurement]:
        """A connection a request: llama.cpp closes those that are kept, whatever is on its way."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield Measurement(
                StreamClient(session, f"{url}/v1/completions", self._clock, REQUEST_TIMEOUT_S),
                Replays(session, url, self._tokenizer, self._clock),
                self._prompts,
            )

    def _record(
        self,
        run: ServerRun,
        case: str,
        *,
        server: RunningServer | None = None,
        values: dict[str, list[float]] | None = None,
        problem: str | None = None,
        foreign_cpu: float = 0.0,
    ) -> CaseRecord:
        memory = memory_of(server.pid) if server is not None and server.is_alive else None
        return CaseRecord(
            round=run.round,
            variant=run.variant.name,
            case=case,
            values=values or {},
            pss_bytes=memory.pss_bytes if memory else None,
            peak_rss_bytes=memory.peak_rss_bytes if memory else None,
            foreign_cpu=foreign_cpu,
            problem=problem,
        )
