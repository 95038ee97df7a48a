"""The program of a native model: layouts it refuses, and its buffer of logits."""

import pytest
import torch

from okibi.core.errors import ConfigError
from okibi.core.plan import BatchPlan
from okibi.core.request import Request
from okibi.execution.runner.model_runner import ModelRunner
from tests.support.builders import (
    admit,
    chunk,
    make_grouped_layout,
    make_layout,
    make_request,
    pages,
    plan,
)
from tests.support.native_kernels import level_params
from tests.support.random_model import make_arch, make_local_executor, make_model

pytestmark = pytest.mark.parametrize("level", level_params(("portable",)))


def prefill(step_id: int, requests: list[Request], num_tokens: int) -> BatchPlan:
    return plan(
        step_id,
        admitted=tuple(admit(one) for one in requests),
        table_updates=tuple(pages(one, 2 * i, 2 * i + 1) for i, one in enumerate(requests)),
        chunks=tuple(chunk(one, 0, num_tokens) for one in requests),
    )


def test_a_layout_of_several_groups_is_refused(level: str):
    executor = make_local_executor(make_arch(num_layers=2), kernels=level)
    with pytest.raises(ConfigError, match="--kernels reference"):
        executor.allocate(make_grouped_layout((4, 1), (6, 1)))


def test_rows_come_in_plan_order_however_many_there_are(level: str):
    """Batches grow and shrink; every row equals the reference's. Logits reach some tens."""
    runners = [
        ModelRunner(make_model(kernels=name), make_layout()) for name in (level, "reference")
    ]
    for step, num_requests in enumerate((1, 5, 2, 9)):
        requests = [make_request(f"{step} {i}", 6) for i in range(num_requests)]
        native, torchs = (runner.forward(prefill(step, requests, 6)) for runner in runners)
        assert native is not None and torchs is not None
        torch.testing.assert_close(native.values_RV, torchs.values_RV, rtol=0.0, atol=1e-3)
        assert native.best_R.equal(torchs.best_R)


def test_a_step_that_samples_nothing_has_no_logits(level: str):
    runner = ModelRunner(make_model(kernels=level), make_layout())
    a = make_request("a", 6)
    assert runner.forward(prefill(0, [a], 3)) is None
    assert runner.forward(plan(1, chunks=(chunk(a, 3, 6),))) is not None
