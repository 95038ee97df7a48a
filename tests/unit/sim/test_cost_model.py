"""Prices of steps: exact sums, and no price is an error."""

import math

import pytest

from okibi.core.errors import ConfigError, ExecutorError
from okibi.core.plan import BatchPlan
from okibi.sim.cost_model import LinearCostModel, checked_step_s, num_attended_tokens
from okibi.sim.executor import SimulatedExecutor
from tests.support.builders import admit, chunk, greedy, make_layout, make_request, plan

A = make_request("a", 10)


def test_a_step_is_the_sum_of_its_parts():
    model = LinearCostModel(
        base_s=1000.0, per_token_s=100.0, per_context_token_s=1.0, per_row_s=10.0
    )
    step = plan(0, chunks=(chunk(A, 4, 7), chunk(make_request("b", 3), 0, 3)))
    assert num_attended_tokens(step.chunks[0]) == 5 + 6 + 7
    assert num_attended_tokens(step.chunks[1]) == 1 + 2 + 3
    assert model.step_s(step) == 1000.0 + 6 * 100.0 + (18 + 6) * 1.0 + 10.0
    assert model.step_s(plan(1)) == 0.0


@pytest.mark.parametrize("price", [-1.0, math.nan, math.inf])
def test_a_price_that_makes_no_sense_is_refused(price):
    with pytest.raises(ConfigError, match="per_token_s"):
        LinearCostModel(per_token_s=price)


class UnknownCost:
    """A cost model that has no answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def step_s(self, plan: BatchPlan) -> float:
        return self.seconds


@pytest.mark.parametrize("price", [-1e-9, math.nan, math.inf])
def test_an_unknown_cost_is_an_error_and_never_free(price):
    with pytest.raises(ExecutorError, match="step 3"):
        checked_step_s(UnknownCost(price), plan(3))
    executor = SimulatedExecutor(UnknownCost(price))
    executor.allocate(make_layout())
    with pytest.raises(ExecutorError, match="step 0"):
        executor.submit(plan(0, admitted=(admit(A),), chunks=(chunk(A, 0, 10),)))


def test_what_the_simulation_cannot_answer_is_an_error():
    request = make_request("a", 4, sampling=greedy(4, logprobs=1))
    executor = SimulatedExecutor(LinearCostModel())
    executor.allocate(make_layout())
    with pytest.raises(ExecutorError, match="not modelled"):
        executor.submit(plan(0, admitted=(admit(request),), chunks=(chunk(request, 0, 4),)))
