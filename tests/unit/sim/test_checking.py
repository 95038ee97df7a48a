"""The checking executor refuses each kind of wrong plan and says where it went wrong."""

import pytest

from okibi.core.errors import ExecutorError, PlanViolation
from okibi.core.ids import PageId
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan, PageCopy, TokenRef
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens
from okibi.sim.checking import CheckingExecutor
from okibi.sim.cost_model import LinearCostModel
from okibi.sim.fake_model import FakeModel
from tests.support.builders import (
    admit,
    chunk,
    make_grouped_layout,
    make_layout,
    make_request,
    pages,
    plan,
    prompt_ids,
    unique_ids,
)

A = make_request("a", 6)
B = make_request("b", unique_ids("a", 4) + unique_ids("b", 5))
STRANGER = make_request("stranger", 6)


@pytest.fixture
def executor() -> CheckingExecutor:
    """Blocks of 4 tokens, 16 pages; A lies in pages 0 and 1 and has one token of output."""
    executor = CheckingExecutor()
    executor.allocate(make_layout(num_pages=16, block_tokens=4))
    run(
        executor,
        plan(0, admitted=(admit(A),), table_updates=(pages(A, 0, 1),), chunks=(chunk(A, 0, 6),)),
    )
    return executor


def run(executor: CheckingExecutor, one: BatchPlan) -> StepOutput:
    executor.submit(one)
    return executor.collect()


def start_b(*page_ids: int, begin: int = 0, step_id: int = 1, **parts) -> BatchPlan:
    return plan(
        step_id,
        admitted=(admit(B),),
        table_updates=(pages(B, *page_ids),),
        chunks=(chunk(B, begin, 9),),
        **parts,
    )


def test_a_shared_whole_block_is_fine(executor):
    shared = run(executor, start_b(0, 2, 3, begin=4))
    cold = run(executor, start_b(4, 5, 6, step_id=2))
    assert shared.rows == cold.rows


def test_the_output_is_the_model_run_from_scratch(executor):
    expected = FakeModel().generate(prompt_ids(B), B.sampling)
    (row,) = run(executor, start_b(0, 2, 3, begin=4)).rows
    assert list(row.token_ids) == expected[:1]


@pytest.mark.parametrize(
    ("one", "message"),
    [
        pytest.param(
            start_b(0, 1, 3, begin=7),
            r"'b'.*position 6 in page 1, slot 2.*never written",
            id="hole",
        ),
        pytest.param(
            start_b(2, 3, 4, begin=4), "position 0 in page 2, slot 0.*never written", id="cold"
        ),
        pytest.param(
            start_b(1, 2, 3, begin=2), "position 0 in page 1.*another prefix", id="shifted"
        ),
        pytest.param(start_b(0, 2), "up to position 9.* ends at 8", id="table too short"),
        pytest.param(start_b(0, 0, 2), "page 0 twice", id="page twice"),
        pytest.param(start_b(0, 2, 16), "page 16, which does not exist", id="no such page"),
        pytest.param(start_b(2, 3, 1), "slot 0 of page 1, which another", id="overwrite"),
        pytest.param(
            start_b(2, 3, 4, copies=(PageCopy(source=PageId(9), target=PageId(3)),)),
            "never written",
            id="copy of nothing",
        ),
        pytest.param(
            start_b(2, 3, 4, copies=(PageCopy(source=PageId(0), target=PageId(9)),)),
            "stands in 0 tables",
            id="copy to nowhere",
        ),
        pytest.param(
            start_b(0, 3, 4, copies=(PageCopy(source=PageId(1), target=PageId(0)),)),
            "stands in 2 tables",
            id="copy over a shared page",
        ),
        pytest.param(
            start_b(
                2,
                3,
                4,
                copies=(
                    PageCopy(source=PageId(0), target=PageId(2)),
                    PageCopy(source=PageId(2), target=PageId(3)),
                ),
            ),
            "depends on the order",
            id="chained copies",
        ),
        pytest.param(start_b(2, 3, 4, step_id=0), "comes after step 0", id="step order"),
        pytest.param(plan(1, chunks=(chunk(B, 0, 9),)), "was not admitted", id="not admitted"),
        pytest.param(plan(1, finished=(B.request_id,)), "was not admitted", id="finish unknown"),
        pytest.param(
            plan(1, finished=(A.request_id,), chunks=(chunk(A, 5, 6),)),
            "was not admitted",
            id="finished and computed",
        ),
        pytest.param(
            plan(1, table_updates=(pages(A, 5, start_block=3),)),
            "blocks from 3 on, its table has 2",
            id="gap in the table",
        ),
        pytest.param(
            plan(1, chunks=(chunk(A, 5, 6), chunk(A, 5, 6))), "two chunks", id="two chunks"
        ),
        pytest.param(
            plan(1, chunks=(chunk(A, 5, 6, num_tokens=2),)), "1 tokens for 2", id="token missing"
        ),
        pytest.param(
            plan(1, chunks=(chunk(A, 5, 6, tokens=None),)), "no token ids", id="no tokens"
        ),
        pytest.param(
            plan(1, chunks=(chunk(A, 4, 5, samples=True),)), "inside its prompt", id="early sample"
        ),
        pytest.param(plan(1, chunks=(chunk(A, 5, 5),)), "computes 0 tokens", id="no work"),
    ],
)
def test_a_wrong_plan_is_named(executor, one, message):
    with pytest.raises(PlanViolation, match=rf"step {one.step_id}\b.*{message}"):
        executor.submit(one)


def test_only_the_token_that_was_sampled_may_follow(executor):
    (row,) = run(executor, plan(1, chunks=(chunk(A, 5, 6),))).rows
    wrong = (row.token_ids[0] + 1) % 997
    with pytest.raises(PlanViolation, match=rf"token {row.token_ids[0]}, not {wrong}, at 6"):
        executor.submit(plan(2, chunks=(chunk(A, 6, 7, output=(wrong,)),)))


def test_a_chunk_may_not_rely_on_the_same_step(executor):
    """Two requests share a cold block; only one computes it, in the same step."""
    twin = make_request("twin", prompt_ids(B))
    both = plan(
        1,
        admitted=(admit(B), admit(twin)),
        table_updates=(pages(B, 4, 5, 6), pages(twin, 4, 7, 8)),
        chunks=(chunk(B, 0, 9), chunk(twin, 4, 9)),
    )
    with pytest.raises(PlanViolation, match="'twin' reads position 0 in page 4"):
        executor.submit(both)


def test_pages_may_be_taken_once_their_request_is_forgotten(executor):
    run(executor, start_b(1, 0, 2, finished=(A.request_id,)))
    with pytest.raises(PlanViolation, match="'a' was not admitted"):
        executor.submit(plan(2, chunks=(chunk(A, 5, 6),)))


def test_pages_of_a_step_in_flight_are_not_to_be_overwritten(executor):
    executor.submit(plan(1, chunks=(chunk(A, 5, 6),)))
    take_over = start_b(1, 5, 6, step_id=2, finished=(A.request_id,))
    with pytest.raises(PlanViolation, match="'b' overwrites page 1, which a step in flight"):
        executor.submit(take_over)


def test_the_source_of_a_copy_in_flight_is_not_to_be_overwritten(executor):
    fork = make_request("b", prompt_ids(A) + unique_ids("fork", 3))
    executor.submit(
        plan(
            1,
            admitted=(admit(fork),),
            table_updates=(pages(fork, 0, 2, 3),),
            copies=(PageCopy(source=PageId(1), target=PageId(2)),),
            chunks=(chunk(fork, 6, 9),),
        )
    )
    evicting = plan(
        2,
        finished=(A.request_id,),
        admitted=(admit(STRANGER),),
        table_updates=(pages(STRANGER, 1, 4),),
        chunks=(chunk(STRANGER, 0, 6),),
    )
    with pytest.raises(PlanViolation, match="overwrites page 1, which a step in flight"):
        executor.submit(evicting)


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (TokenRef(step_id=-1, row=0), "neither in flight nor just done"),  # type: ignore[arg-type]
        (TokenRef(step_id=0, row=1), "no row of its own"),  # type: ignore[arg-type]
        (TokenRef(step_id=0, row=0, draft=1), "not accepted"),  # type: ignore[arg-type]
    ],
)
def test_a_reference_names_a_row_in_flight(executor, ref, message):
    with pytest.raises(PlanViolation, match=message):
        executor.submit(plan(1, chunks=(chunk(A, 6, 7, tokens=b"", ref=ref, samples=True),)))


def test_a_reference_to_a_step_long_gone_is_refused(executor):
    run(executor, plan(1))
    run(executor, plan(2))
    ref = TokenRef(step_id=plan(0).step_id, row=0)
    with pytest.raises(PlanViolation, match="neither in flight nor just done"):
        executor.submit(plan(3, chunks=(chunk(A, 6, 7, tokens=b"", ref=ref, samples=True),)))


def test_an_expected_prompt_catches_a_wrong_hit_when_it_is_read(executor):
    """A consistent prefix, but of other tokens than the request's own."""
    executor.expect(STRANGER)
    with pytest.raises(PlanViolation, match=r"'stranger' reads position 0 in page 0.*instead of"):
        executor.submit(
            plan(
                1,
                admitted=(admit(STRANGER),),
                table_updates=(pages(STRANGER, 0, 2),),
                chunks=(chunk(STRANGER, 4, 6),),
            )
        )


def test_an_expected_salt_keeps_tenants_apart(executor):
    salted = make_request("b", prompt_ids(B), cache_salt="tenant")
    executor.expect(salted)
    with pytest.raises(PlanViolation, match="another prefix"):
        executor.submit(start_b(0, 2, 3, begin=4))


def test_history_must_be_the_requests_own(executor):
    sampling = SamplingParams(max_tokens=2, presence_penalty=1.0)
    request = make_request("p", 6, sampling=sampling)
    executor.expect(request)
    wrong = PackedTokens.of(unique_ids("a", 6)).packed
    with pytest.raises(PlanViolation, match="another history"):
        executor.submit(plan(1, admitted=(admit(request, history=wrong),)))


def test_drafts_are_accepted_as_far_as_the_model_agrees(executor):
    expected = FakeModel().generate(prompt_ids(A), make_request("x", 1, max_tokens=3).sampling)
    first, second, third = expected
    right = chunk(A, 5, 6, drafts=(first, second), samples=True)
    (row,) = run(executor, plan(1, chunks=(right,))).rows
    assert row.token_ids == (first, second, third)
    wrong = chunk(A, 5, 6, drafts=((first + 1) % 997, second), samples=True)
    (row,) = run(executor, plan(2, chunks=(wrong,))).rows
    assert row.token_ids == (first,)


def test_a_step_costs_what_the_model_says():
    executor = CheckingExecutor(cost_model=LinearCostModel(base_s=1.0, per_token_s=0.5))
    executor.allocate(make_layout())
    whole = plan(0, admitted=(admit(A),), table_updates=(pages(A, 0, 1),), chunks=(chunk(A, 0, 6),))
    assert run(executor, whole).duration_s == 4.0
    assert run(executor, plan(1)).duration_s == 0.0


def test_no_more_steps_than_agreed_may_be_outstanding():
    executor = CheckingExecutor(max_inflight_steps=1)
    executor.allocate(make_layout())
    executor.submit(plan(0))
    with pytest.raises(ExecutorError, match="1 steps are outstanding"):
        executor.submit(plan(1))


def test_a_request_may_go_on_in_its_copy_while_the_copying_step_is_in_flight(executor):
    fork = make_request("b", prompt_ids(A) + unique_ids("fork", 1))
    executor.submit(
        plan(
            1,
            admitted=(admit(fork),),
            table_updates=(pages(fork, 0, 2),),
            copies=(PageCopy(source=PageId(1), target=PageId(2)),),
            chunks=(chunk(fork, 6, 7),),
        )
    )
    ref = TokenRef(step_id=plan(1).step_id, row=0)
    executor.submit(plan(2, chunks=(chunk(fork, 7, 8, tokens=b"", ref=ref, samples=True),)))
    expected = FakeModel().generate(prompt_ids(fork), fork.sampling)
    sampled = [executor.collect().rows[0].token_ids[0] for _ in range(2)]
    assert sampled == expected[:2]


# -- groups and blocks of several pages ----------------------------------------------------

WIDE = ((4, 2), (8, 1))
"""Blocks of 4 tokens in two pages each, and of 8 tokens in one."""


@pytest.fixture
def wide() -> CheckingExecutor:
    """A lies in pages (0, 1) and (2, 3) of the first group and in page 4 of the second."""
    executor = CheckingExecutor()
    executor.allocate(make_grouped_layout(*WIDE, num_pages=32))
    tables = (pages(A, 0, 1, 2, 3), pages(A, 4, group=1))
    run(executor, plan(0, admitted=(admit(A),), table_updates=tables, chunks=(chunk(A, 0, 6),)))
    return executor


def start_wide_b(first: tuple[int, ...], second: tuple[int, ...], *sources: int) -> BatchPlan:
    """B from position 4 on; `sources` are copied into the first pages of the second group."""
    return plan(
        1,
        admitted=(admit(B),),
        table_updates=(pages(B, *first), pages(B, *second, group=1)),
        copies=tuple(
            PageCopy(source=PageId(source), target=PageId(target))
            for source, target in zip(sources, second, strict=False)
        ),
        chunks=(chunk(B, 4, 9),),
    )


def test_blocks_of_several_pages_and_several_groups_are_shared(wide):
    (warm,) = run(wide, start_wide_b((0, 1, 8, 9, 10, 11), (12, 13), 4)).rows
    assert list(warm.token_ids) == FakeModel().generate(prompt_ids(B), B.sampling)[:1]


@pytest.mark.parametrize(
    ("one", "message"),
    [
        pytest.param(
            start_wide_b((1, 0, 8, 9, 10, 11), (12, 13), 4),
            "position 0 in page 1, slot 0.*never written",
            id="parts swapped",
        ),
        pytest.param(
            start_wide_b((0, 20, 8, 9, 10, 11), (12, 13), 4),
            "position 0 in page 20, slot 0.*never written",
            id="one part missing",
        ),
        pytest.param(
            start_wide_b((0, 1, 8, 9, 10, 11), (12, 13)),
            "position 0 in page 12, slot 0.*never written",
            id="second group not copied",
        ),
        pytest.param(
            start_wide_b((0, 1, 8, 9, 10, 11), (12, 13), 0),
            "position 0 in page 12, slot 0.*never written",
            id="copied from another group",
        ),
        pytest.param(
            start_wide_b((0, 1, 8), (12, 13), 4), "3 pages, which are no whole", id="half a block"
        ),
        pytest.param(
            start_wide_b((0, 1, 8, 9), (12, 13), 4),
            "up to position 9, its table of group 0 ends at 8",
            id="first table too short",
        ),
        pytest.param(
            start_wide_b((0, 1, 8, 9, 10, 11), (12,), 4),
            "up to position 9, its table of group 1 ends at 8",
            id="second table too short",
        ),
        pytest.param(
            plan(1, table_updates=(pages(A, 8, 9, start_block=4),)),
            "from 4 on, its table has 2",
            id="start is a block, not a page",
        ),
        pytest.param(
            plan(1, table_updates=(pages(A, 8, group=2),)), "has no group 2", id="no such group"
        ),
    ],
)
def test_a_wrong_plan_over_several_groups_is_named(wide, one, message):
    with pytest.raises(PlanViolation, match=message):
        wide.submit(one)
