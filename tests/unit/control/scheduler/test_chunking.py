"""Dividing a step's tokens."""

from hypothesis import given
from hypothesis import strategies as st

from okibi.control.scheduler.chunking import Demand, divide


def share(budget: int, lengths: list[int], cap: int) -> list[int]:
    """Shares among prompts of one rank."""
    return divide(budget, [Demand(0, length) for length in lengths], cap)


def test_a_prompt_never_overtakes_a_more_urgent_one() -> None:
    demands = [Demand(0, 1_000), Demand(0, 400), *[Demand(1, 100)] * 3]
    assert divide(512, demands, 0) == [256, 256, 0, 0, 0]
    assert divide(1_500, demands, 0) == [1_000, 400, 100, 0, 0]


def test_what_fits_is_given_whole() -> None:
    assert share(100, [60, 40], 0) == [60, 40]


def test_a_short_prompt_overtakes_a_long_one() -> None:
    assert share(512, [100_000, 100], 0) == [412, 100]


def test_many_short_prompts_leave_the_oldest_half_a_step() -> None:
    assert share(100, [1_000, 40, 40, 40], 0) == [50, 40, 10, 0]


def test_equal_prompts_go_one_after_another() -> None:
    assert share(100, [80, 80, 80], 0) == [80, 20, 0]


def test_the_cap_leaves_room_for_others() -> None:
    assert share(100, [1_000, 1_000, 1_000], 30) == [30, 30, 30]


@given(st.integers(0, 500), st.lists(st.integers(1, 400), max_size=8), st.integers(0, 60))
def test_shares_are_within_budget_demand_and_cap_and_waste_nothing(
    budget: int, demands: list[int], cap: int
) -> None:
    shares = share(budget, demands, cap)
    wanted = [min(d, cap) if cap else d for d in demands]
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(budget, sum(wanted))
    if demands and budget >= 2:
        assert shares[0] >= min(wanted[0], budget // 2)
