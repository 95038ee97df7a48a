"""Ends of a replay that a real server seldom brings about."""

import asyncio
from collections.abc import Callable

import pytest

from okibi.bench.replay.client import StreamRequest
from okibi.bench.replay.driver import ReplayDriver
from okibi.bench.replay.player import Player, PlayerConfig
from okibi.bench.replay.records import RequestFailure, RequestRecord, RequestResult
from okibi.bench.replay.scheduler import ReplayConfig, ReplayScheduler
from okibi.bench.text.synthesis import TextSynthesizer
from okibi.bench.text.vocabulary import assumed_vocabulary
from okibi.bench.workload.tree import build_tree
from okibi.core.clock import WallClock
from tests.unit.bench.traces import demo_trace

NEVER_S = 3600.0


class Sender:
    """Answers after `delay_s`; a cancelled request is a result, as the client's is."""

    def __init__(self, delay_s: float = 0.0, defect: Exception | None = None) -> None:
        self.num_sent = 0
        self._delay_s = delay_s
        self._defect = defect

    async def stream(self, request: StreamRequest) -> RequestResult:
        self.num_sent += 1
        if self._defect is not None:
            raise self._defect
        now = WallClock().now()
        try:
            await asyncio.sleep(self._delay_s)
        except asyncio.CancelledError:
            failure = RequestFailure(kind="cancelled", message="")
            return RequestResult(start_s=now, end_s=WallClock().now(), failure=failure)
        return RequestResult(start_s=now, end_s=WallClock().now())


def run(
    sender: Sender, interfere: Callable[[ReplayDriver], None] = lambda driver: None
) -> list[RequestRecord]:
    async def replay() -> list[RequestRecord]:
        scheduler = ReplayScheduler([build_tree(demo_trace())], ReplayConfig(time_scale=0.0))
        text = TextSynthesizer(assumed_vocabulary(), 0)
        player = Player(sender, text, PlayerConfig(model="m", run_id="r"))
        records: list[RequestRecord] = []
        driver = ReplayDriver(scheduler, player, WallClock(), grace_s=0.0, on_record=records.append)
        interfere(driver)
        async with asyncio.timeout(20):
            await driver.run()
        return records

    return asyncio.run(replay())


def test_every_request_leaves_a_record():
    sender = Sender()
    assert len(run(sender)) == sender.num_sent == 6


def test_a_stop_ends_what_runs():
    def later(driver: ReplayDriver) -> None:
        asyncio.get_running_loop().call_later(0.05, driver.stop_now, "interrupted")

    (record,) = run(Sender(NEVER_S), later)
    assert record.result.failure is not None
    assert record.result.failure.kind == "cancelled"


def test_a_stop_before_the_first_request_went_out_ends_the_run():
    def at_once(driver: ReplayDriver) -> None:
        asyncio.get_running_loop().call_soon(driver.stop_now, "interrupted")

    sender = Sender(NEVER_S)
    assert run(sender, at_once) == []
    assert sender.num_sent == 0


def test_a_defect_ends_the_run_and_is_raised():
    with pytest.raises(ZeroDivisionError):
        run(Sender(defect=ZeroDivisionError()))
