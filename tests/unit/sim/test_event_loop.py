"""Order and time of simulated events."""

import pytest

from okibi.core.clock import VirtualClock
from okibi.sim.event_loop import EventLoop


def test_events_run_by_time_and_ties_by_order_of_scheduling():
    loop, seen = EventLoop(), []
    loop.at(2.0, lambda now: seen.append(("late", now)))
    loop.at(1.0, lambda now: seen.append(("first", now)))
    loop.at(1.0, lambda now: seen.append(("second", now)))
    loop.run()
    assert seen == [("first", 1.0), ("second", 1.0), ("late", 2.0)]
    assert loop.now() == 2.0


def test_listeners_act_after_the_last_event_of_an_instant():
    loop, seen = EventLoop(), []
    loop.after_instant(lambda now: seen.append("listener"))
    loop.at(1.0, lambda now: loop.at(1.0, lambda now: seen.append("added meanwhile")))
    loop.at(1.0, lambda now: seen.append("event"))
    loop.run()
    assert seen == ["event", "added meanwhile", "listener"]


def test_until_stops_and_moves_the_clock():
    clock = VirtualClock(5.0)
    loop, seen = EventLoop(clock), []
    loop.at(7.0, seen.append)
    loop.run(until=6.0)
    assert (seen, clock.now()) == ([], 6.0)
    loop.run(until=8.0)
    assert (seen, clock.now()) == ([7.0], 8.0)


def test_the_past_is_closed():
    loop = EventLoop(VirtualClock(5.0))
    with pytest.raises(ValueError, match="before"):
        loop.at(4.0, lambda now: None)
