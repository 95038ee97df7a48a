import pytest

from benchmarks.peers.cases import FULL
from benchmarks.peers.summary import Figure, Ratio
from benchmarks.peers.targets import TARGETS, Target, Verdict
from benchmarks.peers.variants import LLAMACPP_BF16, OKIBI_BF16, VARIANTS, VLLM_BF16

PEERS = (VLLM_BF16, LLAMACPP_BF16)


def target(bound: float, *, at_least: bool) -> Target:
    return Target(metric="m", ours=OKIBI_BF16, theirs=PEERS, bound=bound, at_least=at_least)


def figure(*rounds: float) -> Figure:
    return Figure(rounds=rounds, num_repeats=1, is_disturbed=False)


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [
        (1.5, 1.7, 2.0, Verdict.MET),
        (1.4, 1.5, 2.0, Verdict.PROBABLY),
        (1.2, 1.4, 1.6, Verdict.UNCLEAR),
        (1.2, 1.3, 1.4, Verdict.MISSED),
    ],
)
def test_a_speed_must_reach_its_bound_and_a_time_stay_below(low, value, high, verdict):
    speed = target(1.5, at_least=True)
    assert speed.verdict(Ratio(value=value, low=low, high=high)) is verdict
    time = target(1 / 1.5, at_least=False)
    assert time.verdict(Ratio(value=1 / value, low=1 / high, high=1 / low)) is verdict


def test_a_ratio_needs_both_figures():
    ours, theirs = (OKIBI_BF16.name, "m"), (VLLM_BF16.name, "m")
    wanted = target(1.5, at_least=True)
    assert wanted.ratio({ours: figure(1.0)}) is None
    assert wanted.ratio({ours: figure(1.0), theirs: figure(0.0)}) is None
    ratio = wanted.ratio({ours: figure(3.0, 3.0), theirs: figure(2.0, 2.0)})
    assert ratio == Ratio(value=1.5, low=1.5, high=1.5)


@pytest.mark.parametrize(("at_least", "ratio"), [(True, 2.0), (False, 6.0)])
def test_the_best_peer_is_the_fastest_or_the_soonest(at_least, ratio):
    wanted = target(1.5, at_least=at_least)
    values = {OKIBI_BF16: 12.0, VLLM_BF16: 6.0, LLAMACPP_BF16: 2.0}
    found = {(variant.name, "m"): figure(value) for variant, value in values.items()}
    assert wanted.best_peer({}) is None
    shown = wanted.ratio(found)
    assert shown is not None
    assert shown.value == ratio
    del found[VLLM_BF16.name, "m"]
    assert wanted.best_peer(found) is LLAMACPP_BF16


def test_every_target_is_measured_by_a_full_run():
    measured = {"start-up", *(case.name for case in FULL)}
    for each in TARGETS:
        assert each.metric.partition(".")[0] in measured
        assert {each.ours, *each.theirs} <= set(VARIANTS)
        assert each.at_least == (each.bound > 1)
