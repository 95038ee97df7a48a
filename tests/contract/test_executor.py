"""One suite for every executor: what a driver may rely on.

Add an implementation by one line in `EXECUTORS`. Plans are written by hand; nothing here depends
on which tokens an executor yields, only on which of them must be equal.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from okibi.core.errors import ExecutorError
from okibi.core.executor import Executor
from okibi.core.ids import PageId
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan, PageCopy, TokenRef
from okibi.sim.checking import CheckingExecutor
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.executor import SimulatedExecutor
from okibi.sim.plan_codec import decode_plan, encode_plan
from tests.support.builders import (
    admit,
    chunk,
    greedy,
    make_grouped_layout,
    make_layout,
    make_request,
    pages,
    plan,
    unique_ids,
)
from tests.support.native_kernels import FLOAT32_LEVELS, level_params
from tests.support.random_model import make_arch, make_local_executor

BLOCK_TOKENS = 4
NUM_PAGES = 16

A = make_request("a", 6)
B = make_request("b", unique_ids("a", 6) + unique_ids("b", 3))


def simulated() -> Executor:
    return SimulatedExecutor(LinearCostModel(base_s=0.01, per_token_s=0.001))


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "checking": CheckingExecutor,
    "simulated": simulated,
    "local": make_local_executor,
}
"""Each makes an executor that `allocate` has not been called on."""

GROUPED_EXECUTORS = EXECUTORS | {"local": lambda: make_local_executor(make_arch(num_layers=2))}
"""The same with a layer for each of two groups."""

NATIVE_EXECUTORS: dict[str, Callable[[], Executor]] = {
    level: partial(make_local_executor, kernels=level) for level in FLOAT32_LEVELS
}
"""The local one on native kernels, which keep one group."""


@pytest.fixture(params=[*EXECUTORS, *level_params(FLOAT32_LEVELS)])
def fresh(request: pytest.FixtureRequest) -> Iterator[Callable[[], Executor]]:
    """Makes allocated executors of one kind."""
    made: list[Executor] = []

    def make() -> Executor:
        executor = (EXECUTORS | NATIVE_EXECUTORS)[request.param]()
        executor.allocate(make_layout(num_pages=NUM_PAGES, block_tokens=BLOCK_TOKENS))
        made.append(executor)
        return executor

    yield make
    for executor in made:
        executor.close()


@pytest.fixture(params=GROUPED_EXECUTORS)
def grouped(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """An executor with two groups, blocks of 4 and of 6 tokens."""
    executor = GROUPED_EXECUTORS[request.param]()
    executor.allocate(make_grouped_layout((4, 1), (6, 1), num_pages=NUM_PAGES))
    yield executor
    executor.close()


def run(executor: Executor, *plans: BatchPlan) -> list[StepOutput]:
    outputs: list[StepOutput] = []
    for one in plans:
        executor.submit(one)
        outputs.append(executor.collect())
    return outputs


def sampled(output: StepOutput) -> tuple[int, ...]:
    """The token of each row."""
    return tuple(row.token_ids[0] for row in output.rows)


def prefill_a(step_id: int = 0) -> BatchPlan:
    return plan(
        step_id, admitted=(admit(A),), table_updates=(pages(A, 0, 1),), chunks=(chunk(A, 0, 6),)
    )


def prefill_b(step_id: int = 0) -> BatchPlan:
    return plan(
        step_id,
        admitted=(admit(B),),
        table_updates=(pages(B, 8, 9, 10),),
        chunks=(chunk(B, 0, 9),),
    )


def test_outputs_come_one_a_plan_in_order(fresh):
    executor = fresh()
    executor.submit(prefill_a(step_id=3))
    executor.submit(prefill_b(step_id=7))
    first, second = executor.collect(), executor.collect()
    assert (first.step_id, second.step_id) == (3, 7)
    assert [row.request_id for row in (*first.rows, *second.rows)] == ["a", "b"]
    assert first.duration_s >= 0.0


def test_rows_are_the_sampling_chunks_in_plan_order(fresh):
    c = make_request("c", 5)
    (output,) = run(
        fresh(),
        plan(
            0,
            admitted=(admit(A), admit(B), admit(c)),
            table_updates=(pages(A, 0, 1), pages(B, 2, 3), pages(c, 4, 5)),
            chunks=(chunk(c, 0, 5), chunk(B, 0, 8), chunk(A, 0, 6)),
        ),
    )
    assert [row.request_id for row in output.rows] == ["c", "a"]
    assert all(len(row.token_ids) == 1 for row in output.rows)


def test_an_empty_plan_has_an_empty_output(fresh):
    empty, after = run(fresh(), plan(0), prefill_a(step_id=1))
    assert (empty.step_id, empty.rows) == (0, ())
    assert len(after.rows) == 1


def test_a_plan_means_the_same_after_encoding(fresh):
    plans = (prefill_a(0), prefill_b(1))
    direct = run(fresh(), *plans)
    decoded = run(fresh(), *(decode_plan(encode_plan(one)) for one in plans))
    assert [output.rows for output in decoded] == [output.rows for output in direct]


def test_a_batch_yields_what_each_request_yields_alone(fresh):
    (alone_a,), (alone_b,) = run(fresh(), prefill_a()), run(fresh(), prefill_b())
    a, b = prefill_a(), prefill_b()
    (batched,) = run(
        fresh(),
        plan(
            0,
            admitted=(*a.admitted, *b.admitted),
            table_updates=(*a.table_updates, *b.table_updates),
            chunks=(*a.chunks, *b.chunks),
        ),
    )
    assert batched.rows == (*alone_a.rows, *alone_b.rows)


def test_chunks_yield_what_the_whole_prompt_yields(fresh):
    (whole,) = run(fresh(), prefill_b())
    *_, last = run(
        fresh(),
        plan(0, admitted=(admit(B),), table_updates=(pages(B, 8),), chunks=(chunk(B, 0, 3),)),
        plan(1, chunks=(chunk(B, 3, 4),)),
        plan(2, table_updates=(pages(B, 3, 10, start_block=1),), chunks=(chunk(B, 4, 9),)),
    )
    assert last.rows == whole.rows


def test_a_reference_is_the_token_it_names(fresh):
    executor = fresh()
    (first,) = run(executor, prefill_a())
    (direct,) = run(executor, plan(1, chunks=(chunk(A, 6, 7, output=sampled(first)),)))

    executor = fresh()
    executor.submit(prefill_a())
    ref = TokenRef(step_id=prefill_a().step_id, row=0)
    executor.submit(plan(1, chunks=(chunk(A, 6, 7, output=(), tokens=b"", ref=ref),)))
    executor.collect()
    assert executor.collect().rows == direct.rows


def test_copies_run_before_the_step_computes(fresh):
    """B continues A's partial page in a copy; both go on as if alone."""
    (alone_b,) = run(fresh(), prefill_b())
    executor = fresh()
    (first,) = run(executor, prefill_a())
    known = sampled(first)
    shared = plan(
        1,
        admitted=(admit(B),),
        table_updates=(pages(B, 0, 5, 6),),
        copies=(PageCopy(source=PageId(1), target=PageId(5)),),
        chunks=(chunk(A, 6, 7, output=known), chunk(B, 6, 9)),
    )
    (output,) = run(executor, shared)
    _, alone_a = run(fresh(), prefill_a(), plan(1, chunks=(chunk(A, 6, 7, output=known),)))
    assert output.rows == (*alone_a.rows, *alone_b.rows)


def test_readmission_after_preemption_changes_nothing(fresh):
    """A is preempted after one token, B takes its pages, A starts again elsewhere."""
    (first,) = run(fresh(), prefill_a())
    known = sampled(first)
    _, straight = run(fresh(), prefill_a(), plan(1, chunks=(chunk(A, 6, 7, output=known),)))
    take_over = plan(
        1,
        finished=(A.request_id,),
        admitted=(admit(B),),
        table_updates=(pages(B, 1, 0, 2),),
        chunks=(chunk(B, 0, 9),),
    )
    again = plan(
        2,
        admitted=(admit(A),),
        table_updates=(pages(A, 4, 3),),
        chunks=(chunk(A, 0, 7, output=known),),
    )
    *_, output = run(fresh(), prefill_a(), take_over, again)
    assert output.rows == straight.rows


def test_admitting_a_known_request_starts_it_again(fresh):
    (first,) = run(fresh(), prefill_a())
    again = plan(1, admitted=(admit(A),), table_updates=(pages(A, 7, 8),), chunks=(chunk(A, 0, 6),))
    _, second = run(fresh(), prefill_a(), again)
    assert second.rows == first.rows


def test_stop_ids_are_masked_before_min_tokens(fresh):
    (free,) = run(fresh(), prefill_a())
    stop_ids = sampled(free)
    patient = make_request("a", 6, sampling=greedy(4, min_tokens=1))
    (masked,) = run(
        fresh(),
        plan(
            0,
            admitted=(admit(patient, stop_ids=stop_ids),),
            table_updates=(pages(patient, 0, 1),),
            chunks=(chunk(patient, 0, 6),),
        ),
    )
    assert sampled(masked) != stop_ids


def test_collect_without_a_plan_is_an_error(fresh):
    executor = fresh()
    with pytest.raises(ExecutorError):
        executor.collect()
    run(executor, prefill_a())
    with pytest.raises(ExecutorError):
        executor.collect()


def test_close_is_idempotent_and_final(fresh):
    executor = fresh()
    executor.submit(prefill_a())
    executor.close()
    executor.close()
    with pytest.raises(ExecutorError):
        executor.submit(prefill_b(1))


def test_groups_have_block_tables_of_their_own(grouped):
    """B shares A's whole block of one group and copies the partial one of the other."""
    start_a = plan(
        0,
        admitted=(admit(A),),
        table_updates=(pages(A, 0, 1), pages(A, 2, group=1)),
        chunks=(chunk(A, 0, 6),),
    )
    warm_b = plan(
        1,
        admitted=(admit(B),),
        table_updates=(pages(B, 0, 3, 4), pages(B, 2, 5, group=1)),
        copies=(PageCopy(source=PageId(1), target=PageId(3)),),
        chunks=(chunk(B, 6, 9),),
    )
    cold_b = plan(
        2,
        admitted=(admit(B),),
        table_updates=(pages(B, 6, 7, 8), pages(B, 10, 9, group=1)),
        chunks=(chunk(B, 0, 9),),
    )
    _, warm, cold = run(grouped, start_a, warm_b, cold_b)
    assert cold.rows == warm.rows
