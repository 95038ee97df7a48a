"""What okibi must reach beside its peers, and whether a run shows it.

Pure. A ratio is okibi's figure over the peer's, the best one's where a target names several.
Speeds must be at least a bound, times at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.peers.summary import Figure, FigureKey, Ratio
from benchmarks.peers.variants import (
    LLAMACPP_BF16,
    LLAMACPP_Q4_1,
    OKIBI_BF16,
    OKIBI_Q4_1,
    VLLM_BF16,
    Variant,
)


class Verdict(StrEnum):
    """What the ratio and its noise say of a target."""

    MET = "met"
    PROBABLY = "met, not clear of noise"
    UNCLEAR = "missed, not clear of noise"
    MISSED = "missed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A bound on okibi's figure over the best of `theirs`."""

    metric: str
    ours: Variant
    theirs: tuple[Variant, ...]
    bound: float
    at_least: bool

    def ratio(self, found: Mapping[FigureKey, Figure]) -> Ratio | None:
        """The measured ratio; None until both figures are there, and above 0."""
        ours, best = found.get((self.ours.name, self.metric)), self.best_peer(found)
        if ours is None or best is None:
            return None
        return Ratio.of(ours, found[best.name, self.metric])

    def best_peer(self, found: Mapping[FigureKey, Figure]) -> Variant | None:
        """Which of `theirs` has the best figure; None while none has one above 0.

        A peer whose replay was stopped at its limit has none: others are ahead of it.
        """
        measured = {
            each: found[each.name, self.metric].value
            for each in self.theirs
            if (each.name, self.metric) in found and min(found[each.name, self.metric].rounds)
        }
        pick = max if self.at_least else min
        return pick(measured, key=lambda each: measured[each], default=None)

    def verdict(self, ratio: Ratio) -> Verdict:
        """Clear of noise if the whole range of the ratio lies on one side of the bound."""
        worst, best = (ratio.low, ratio.high) if self.at_least else (ratio.high, ratio.low)
        if self._holds(ratio.value):
            return Verdict.MET if self._holds(worst) else Verdict.PROBABLY
        return Verdict.UNCLEAR if self._holds(best) else Verdict.MISSED

    def _holds(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound


def _speed(metric: str, ours: Variant, theirs: Variant, bound: float) -> Target:
    name = f"{metric}.tok_per_s"
    return Target(metric=name, ours=ours, theirs=(theirs,), bound=bound, at_least=True)


def _time(metric: str, ours: Variant, theirs: tuple[Variant, ...], bound: float) -> Target:
    return Target(metric=metric, ours=ours, theirs=theirs, bound=bound, at_least=False)


_BF16_PEERS = (VLLM_BF16, LLAMACPP_BF16)
_ALL_PEERS = (*_BF16_PEERS, LLAMACPP_Q4_1)


TARGETS = (
    _speed("prefill/512", OKIBI_BF16, VLLM_BF16, 1.5),
    _speed("prefill/2048", OKIBI_BF16, VLLM_BF16, 1.5),
    _speed("prefill/7900", OKIBI_BF16, VLLM_BF16, 1.8),
    _speed("decode/100", OKIBI_BF16, VLLM_BF16, 1.6),
    _speed("decode/4096", OKIBI_BF16, VLLM_BF16, 1.6),
    _speed("decode/7000", OKIBI_BF16, VLLM_BF16, 1.35),
    _speed("decode/100", OKIBI_Q4_1, LLAMACPP_Q4_1, 1.3),
    _speed("decode/4096", OKIBI_Q4_1, LLAMACPP_Q4_1, 2.0),
    _speed("streams/8", OKIBI_BF16, VLLM_BF16, 1.5),
    _speed("streams/32", OKIBI_BF16, VLLM_BF16, 1.8),
    _time("replay/4.wall_s", OKIBI_BF16, _BF16_PEERS, 0.7),
    _time("replay/16.wall_s", OKIBI_BF16, _BF16_PEERS, 0.5),
    _time("replay/4.ttft_p90_s", OKIBI_BF16, _BF16_PEERS, 0.5),
    _time("replay/16.ttft_p90_s", OKIBI_BF16, _BF16_PEERS, 0.5),
    _time("replay/4.wall_s", OKIBI_Q4_1, _ALL_PEERS, 0.5),
    _time("replay/16.wall_s", OKIBI_Q4_1, _ALL_PEERS, 0.4),
    _time("replay/4.ttft_p90_s", OKIBI_Q4_1, _ALL_PEERS, 0.5),
    _time("replay/16.ttft_p90_s", OKIBI_Q4_1, _ALL_PEERS, 0.5),
    _time("start-up.s", OKIBI_BF16, (VLLM_BF16,), 0.1),
)
