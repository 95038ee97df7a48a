from benchmarks.peers.cases import FULL, QUICK
from benchmarks.peers.rounds import Key, plan_rounds
from benchmarks.peers.variants import (
    LLAMACPP_Q4_1,
    OKIBI_BF16,
    VARIANTS,
    VLLM_BF16,
    select_variants,
)


def test_every_second_round_goes_backwards():
    variants = select_variants("okibi,vllm")
    runs = plan_rounds(variants, QUICK, 3, set())
    forwards = [variant.name for variant in variants]
    visited = [[run.variant.name for run in runs if run.round == n] for n in (1, 2, 3)]
    assert visited == [forwards, forwards[::-1], forwards]


def test_every_case_is_measured_once_a_round_on_every_variant():
    runs = plan_rounds(VARIANTS, FULL, 2, set())
    found = [(run.round, run.variant.name, case.name) for run in runs for case in run.cases]
    assert len(found) == len(set(found)) == 2 * len(VARIANTS) * len(FULL)


def test_only_an_engine_that_must_is_started_anew_for_each_stage():
    assert len(plan_rounds([OKIBI_BF16], FULL, 1, set())) == 1
    runs = plan_rounds([LLAMACPP_Q4_1], FULL, 1, set())
    assert [{case.stage for case in run.cases} for run in runs] == [
        {"single"},
        {"streams"},
        {"replay"},
    ]


def test_what_is_done_is_left_out_and_a_server_without_work_is_not_started():
    done: set[Key] = {(1, VLLM_BF16.name, case.name) for case in FULL}
    done.add((2, VLLM_BF16.name, FULL[0].name))
    runs = plan_rounds([VLLM_BF16], FULL, 2, done)
    assert [(run.round, run.cases) for run in runs] == [(2, FULL[1:])]
