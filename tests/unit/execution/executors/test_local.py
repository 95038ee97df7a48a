"""The local executor: failures, layouts of other models, and equality however it is scheduled."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch

from okibi.control.replica import Replica
from okibi.core.clock import VirtualClock, WallClock
from okibi.core.errors import ConfigError, ExecutorError
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.execution.executors.local import LocalExecutor
from okibi.kvcache.layout_solver import solve_layout
from tests.support.builders import (
    MAX_TOKEN_ID,
    admit,
    chunk,
    greedy,
    make_config,
    make_layout,
    make_request,
    make_specs,
    pages,
    plan,
)
from tests.support.lockstep import LockstepDriver
from tests.support.native_kernels import kernel_params, torch_module
from tests.support.random_model import make_arch, make_local_executor, make_model

A = make_request("a", 6)


def allocated() -> LocalExecutor:
    executor = make_local_executor()
    executor.allocate(make_layout())
    return executor


def prefill(step_id: int = 0, **changes: Any):
    return plan(
        step_id,
        admitted=(admit(A),),
        table_updates=(pages(A, 0, 1),),
        chunks=(chunk(A, 0, 6, **changes),),
    )


class TestFailures:
    def test_a_failed_step_is_told_by_its_collect_and_ends_the_executor(self):
        executor = allocated()
        executor.submit(prefill(0))
        executor.submit(prefill(1, tokens=None))
        assert executor.collect().step_id == 0
        with pytest.raises(ExecutorError, match="no token ids"):
            executor.collect()
        with pytest.raises(ExecutorError, match="earlier step failed"):
            executor.submit(prefill(2))

    def test_any_exception_becomes_an_executor_error(self):
        model = make_model()
        executor = LocalExecutor(model, WallClock())
        executor.allocate(make_layout())
        torch_module(model).get_parameter("norm.weight").data = torch.ones(3)
        executor.submit(prefill())
        with pytest.raises(ExecutorError, match="RuntimeError") as caught:
            executor.collect()
        assert isinstance(caught.value.__cause__, RuntimeError)

    def test_logits_that_are_no_numbers_are_an_error_and_not_a_token(self):
        model = make_model()
        executor = LocalExecutor(model, WallClock())
        executor.allocate(make_layout())
        torch_module(model).get_parameter("norm.weight").fill_(torch.nan)
        executor.submit(prefill())
        (row,) = executor.collect().rows
        assert row.error is not None
        assert row.token_ids == ()

    def test_without_an_arena_no_plan_is_taken(self):
        with pytest.raises(ExecutorError, match="allocate"):
            make_local_executor().submit(prefill())

    @pytest.mark.parametrize(
        "specs",
        [
            make_specs(2),
            (replace(make_specs()[0], layer=1),),
            (replace(make_specs()[0], head_dim=8),),
            (replace(make_specs()[0], dtype=KVDType.BFLOAT16),),
        ],
    )
    def test_a_layout_of_another_model_is_refused(self, specs: tuple[FullAttentionSpec, ...]):
        layout = solve_layout(specs, block_tokens=4, prefix_match_unit=4, num_pages=8)
        with pytest.raises(ConfigError, match="another model"):
            make_local_executor().allocate(layout)

    def test_a_closed_executor_stays_closed(self):
        executor = allocated()
        executor.close()
        with pytest.raises(ConfigError, match="closed"):
            executor.allocate(make_layout())


def test_duration_is_that_of_the_step_not_of_the_wait():
    clock = VirtualClock()
    executor = LocalExecutor(make_model(), clock)
    executor.allocate(make_layout())
    executor.submit(prefill())
    clock.advance_to(5.0)
    assert executor.collect().duration_s == 0.0


def test_logprobs_come_with_their_rows():
    requests = [
        make_request(name, 6, sampling=greedy(logprobs=count))
        for name, count in (("a", None), ("b", 0), ("c", 3))
    ]
    executor = allocated()
    executor.submit(
        plan(
            0,
            admitted=tuple(admit(one) for one in requests),
            table_updates=tuple(pages(one, 2 * i, 2 * i + 1) for i, one in enumerate(requests)),
            chunks=tuple(chunk(one, 0, 6) for one in requests),
        )
    )
    a, b, c = executor.collect().rows
    assert a.logprobs == ()
    assert (b.logprobs[0].token_id, b.logprobs[0].top) == (b.token_ids[0], ())
    top = c.logprobs[0].top
    assert top[0] == (c.token_ids[0], c.logprobs[0].logprob)
    assert [logprob for _, logprob in top] == sorted((logprob for _, logprob in top), reverse=True)


# -- the same tokens, whatever the schedule -----------------------------------------------

SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.9, "seed": 11},
    {"temperature": 1.2, "seed": -3, "top_p": 0.8, "top_k": 20},
    {"temperature": 0.0, "presence_penalty": 1.5, "frequency_penalty": 0.7},
    {"temperature": 0.7, "seed": 5, "repetition_penalty": 1.8, "min_p": 0.02},
    {"temperature": 0.0, "min_tokens": 6, "stop_token_ids": tuple(range(0, MAX_TOKEN_ID, 2))},
    {"temperature": 0.8, "seed": 9, "logit_bias": ((3, 4.0), (MAX_TOKEN_ID + 5, 50.0))},
)


def mixed_requests() -> list[Request]:
    """14 requests, half of them sharing a prefix of 11 tokens."""
    generator = Random(4)
    shared = generator.choices(range(MAX_TOKEN_ID), k=11)
    requests = []
    for index in range(2 * len(SAMPLINGS)):
        own = generator.choices(range(MAX_TOKEN_ID), k=generator.randint(1, 17))
        sampling = SamplingParams(max_tokens=generator.randint(16, 28), **SAMPLINGS[index // 2])
        requests.append(
            make_request(f"{index}", (shared if index % 2 else []) + own, sampling=sampling)
        )
    return requests


def generate(
    requests: Sequence[Request], *, kernels: str, num_pages: int, depth: int, **config: Any
) -> tuple[list[list[int]], LockstepDriver]:
    layout = make_layout(num_pages=num_pages, unit=2)
    executor = LocalExecutor(make_model(make_arch(), seed=1, kernels=kernels), WallClock())
    executor.allocate(layout)
    replica = Replica(make_config(max_inflight_steps=depth, **config), layout)
    driver = LockstepDriver(replica, executor, max_inflight_steps=depth)
    driver.submit(*requests)
    driver.run()
    return [driver.tokens(request.request_id) for request in requests], driver


@pytest.fixture(scope="module", params=kernel_params())
def kernels(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def alone(kernels: str) -> list[list[int]]:
    """Each request by itself, whole, cold and in a large pool."""
    tokens = [
        generate([request], kernels=kernels, num_pages=64, depth=1)[0][0]
        for request in mixed_requests()
    ]
    assert len({token for one in tokens for token in one}) > 20
    return tokens


@pytest.mark.parametrize("depth", [1, 2])
def test_batched_and_cached_equals_alone(alone: list[list[int]], kernels: str, depth: int):
    tokens, driver = generate(mixed_requests(), kernels=kernels, num_pages=200, depth=depth)
    assert tokens == alone
    assert driver.replica.stats().counters.prefix_hit_tokens > 0


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("budget", [8, 11])
def test_preempted_and_chunked_equals_alone(
    alone: list[list[int]], kernels: str, depth: int, budget: int
):
    tokens, driver = generate(
        mixed_requests(),
        kernels=kernels,
        num_pages=18,
        depth=depth,
        max_num_batched_tokens=budget,
    )
    assert tokens == alone
    assert driver.replica.stats().counters.num_preemptions > 0
