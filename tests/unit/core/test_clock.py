"""Clocks."""

import pytest

from okibi.core.clock import VirtualClock, WallClock


def test_virtual_clock_moves_only_when_told():
    clock = VirtualClock(5.0)
    assert (clock.now(), clock.now()) == (5.0, 5.0)
    clock.advance_to(7.5)
    assert clock.now() == clock.unix_time_s() == 7.5


def test_virtual_clock_may_stand_but_not_go_back():
    clock = VirtualClock(2.0)
    clock.advance_to(2.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance_to(1.0)
    assert clock.now() == 2.0


def test_wall_clock_never_goes_back_and_knows_the_date():
    clock = WallClock()
    first, second = clock.now(), clock.now()
    assert second >= first
    assert clock.unix_time_s() > 1.7e9
