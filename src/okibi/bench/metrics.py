"""Every figure of a report, computed from request records alone.

Definitions follow agentx-harness 1.0.12 and the InferenceX aggregation, so that numbers compare:
ITL = (latency - TTFT) / (output tokens - 1); P90 interactivity = 1 / P90(ITL), the slow tail;
E2E-normalised interactivity = 1 / P90(latency / output tokens); throughput = (prompt + output
tokens, cached ones included) / (last end - first start). Percentiles interpolate linearly. Only
complete requests enter, unless a name says otherwise. Must never read a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from okibi.bench.replay.records import RequestRecord
from okibi.bench.workload.trace import BLOCK_TOKENS

UNEXPECTED_HIT_MARGIN = 0.05


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Linearly interpolated percentile (0 <= percent <= 100); None for no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    position = (len(ordered) - 1) * percent / 100.0
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentiles:
    """p50, p90 and p99 of one quantity; None where nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles:
        """Percentiles of `values`."""
        kept = list(values)
        return cls(p50=percentile(kept, 50), p90=percentile(kept, 90), p99=percentile(kept, 99))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayMetrics:
    """The figures of one replay. Times in seconds, rates in tokens per second, shares in 0..1.

    `reusable_share` bounds the hit rate of a cache that was empty when the run began;
    `prompt_overhead_tokens` is the server's prompt count minus the recorded one, the chat template
    and the marker included: it shows how exact the synthesised text is.
    """

    num_requests: int
    num_ok: int
    num_failed: int
    num_cancelled: int
    errors: dict[str, int]
    num_context_overflows: int
    num_sessions: int
    wall_s: float
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    total_tokens: int
    tokens_per_s: float | None
    output_tokens_per_s: float | None
    ttft_s: Percentiles
    itl_s: Percentiles
    latency_s: Percentiles
    start_lag_s: Percentiles
    interactivity_p90: float | None
    e2e_interactivity_p90: float | None
    theoretical_hit_share: float | None
    reusable_share: float | None
    measured_hit_share: float | None
    num_osl_mismatches: int
    prompt_overhead_tokens: Percentiles


def compute_metrics(records: Sequence[RequestRecord]) -> ReplayMetrics:
    """Figures of a replay, complete or partial."""
    ok = [record for record in records if record.ok]
    kinds = Counter(r.result.failure.kind for r in records if r.result.failure is not None)
    num_cancelled = kinds.pop("cancelled", 0)
    span_s = _span_s(ok)
    num_input = sum(record.result.prompt_tokens or 0 for record in ok)
    num_output = sum(record.result.completion_tokens or 0 for record in ok)
    itl = Percentiles.of(r.itl_s for r in ok if r.itl_s is not None)
    return ReplayMetrics(
        num_requests=len(records),
        num_ok=len(ok),
        num_failed=kinds.total(),
        num_cancelled=num_cancelled,
        errors=dict(sorted(kinds.items())),
        num_context_overflows=kinds["context_overflow"],
        num_sessions=len({record.play for record in records}),
        wall_s=_span_s(records),
        input_tokens=num_input,
        cached_tokens=sum(record.result.cached_tokens or 0 for record in ok),
        output_tokens=num_output,
        total_tokens=num_input + num_output,
        tokens_per_s=_ratio(num_input + num_output, span_s),
        output_tokens_per_s=_ratio(num_output, span_s),
        ttft_s=Percentiles.of(r.ttft_s for r in ok if r.ttft_s is not None),
        itl_s=itl,
        latency_s=Percentiles.of(r.latency_s for r in ok if r.latency_s is not None),
        start_lag_s=Percentiles.of(r.result.start_s - r.due_s for r in records),
        interactivity_p90=_ratio(1.0, itl.p90),
        e2e_interactivity_p90=_ratio(1.0, percentile(_latency_per_token(ok), 90)),
        theoretical_hit_share=_ratio(
            sum(r.theoretical_hit_blocks for r in ok), sum(r.theoretical_total_blocks for r in ok)
        ),
        reusable_share=_ratio(
            BLOCK_TOKENS * sum(r.num_reusable_blocks for r in ok),
            sum(r.recorded_input_tokens for r in ok),
        ),
        measured_hit_share=_measured_hit_share(ok),
        num_osl_mismatches=sum(
            r.result.completion_tokens not in (None, max(1, r.recorded_output_tokens)) for r in ok
        ),
        prompt_overhead_tokens=Percentiles.of(
            r.result.prompt_tokens - r.recorded_input_tokens
            for r in ok
            if r.result.prompt_tokens is not None
        ),
    )


def find_warnings(metrics: ReplayMetrics, records: Sequence[RequestRecord]) -> list[str]:
    """What makes these figures doubtful, one sentence each."""
    warnings: list[str] = []
    measured, reusable = metrics.measured_hit_share, metrics.reusable_share or 0.0
    if measured is not None and measured > reusable + UNEXPECTED_HIT_MARGIN:
        warnings.append(
            f"measured hit rate {measured:.1%} is above the {reusable:.1%} that a cache empty "
            "at the start could reach: the server knew these prompts already (an earlier run "
            "with the same seed); restart it or change --seed"
        )
    ok = [record for record in records if record.ok]
    if ok and all(record.result.prompt_tokens is None for record in ok):
        warnings.append(
            "the server sends no usage in its stream: tokens, ITL and rates are missing"
        )
    elif ok and measured is None:
        warnings.append("the server reports no cached_tokens: the measured hit rate is missing")
    if metrics.num_osl_mismatches:
        warnings.append(
            f"{metrics.num_osl_mismatches} replies differ from the recorded length: "
            "the server does not honour ignore_eos or max_completion_tokens"
        )
    lag = metrics.start_lag_s.p90
    if lag is not None and lag > 0.1:
        warnings.append(f"requests started {lag:.2f} s late (p90): this client is the bottleneck")
    return warnings


def _measured_hit_share(ok: Sequence[RequestRecord]) -> float | None:
    counted = [r.result for r in ok if r.result.cached_tokens is not None]
    return _ratio(
        sum(result.cached_tokens or 0 for result in counted),
        sum(result.prompt_tokens or 0 for result in counted),
    )


def _latency_per_token(ok: Sequence[RequestRecord]) -> list[float]:
    return [
        r.latency_s / r.result.completion_tokens
        for r in ok
        if r.latency_s is not None and r.result.completion_tokens
    ]


def _span_s(records: Sequence[RequestRecord]) -> float:
    if not records:
        return 0.0
    start = min(record.result.start_s for record in records)
    return max(record.result.end_s for record in records) - start


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None
