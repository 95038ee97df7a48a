"""The metric contract: names, types and labels of `GET /metrics`.

Our names begin with `okibi:`. Beside them stand the names that vLLM publishes, with the same
values, so that dashboards and harnesses made for it read okibi unchanged. Levels and counters are
the replica's own, taken as of its latest turn.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from okibi.control.stats import ReplicaStats
from okibi.server.engine_client import EngineClient
from okibi.server.http.latency import Latency

VLLM_ALIASES: Mapping[str, str] = {
    "okibi:num_requests_running": "vllm:num_requests_running",
    "okibi:num_requests_waiting": "vllm:num_requests_waiting",
    "okibi:kv_cache_usage_ratio": "vllm:kv_cache_usage_perc",
    "okibi:prompt_tokens": "vllm:prompt_tokens",
    "okibi:prompt_tokens_by_source": "vllm:prompt_tokens_by_source",
    "okibi:generation_tokens": "vllm:generation_tokens",
    "okibi:prefix_query_tokens": "vllm:prefix_cache_queries",
    "okibi:prefix_hit_tokens": "vllm:prefix_cache_hits",
    "okibi:preemptions": "vllm:num_preemptions",
    "okibi:requests_finished": "vllm:request_success",
    "okibi:time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "okibi:inter_token_latency_seconds": "vllm:inter_token_latency_seconds",
    "okibi:e2e_request_latency_seconds": "vllm:e2e_request_latency_seconds",
}
"""vLLM's name of each family that it has too."""

_LABEL_ALIASES = {"reason": "finished_reason"}


class ServerMetrics:
    """Everything there is to scrape."""

    def __init__(self, engine: EngineClient, latency: Latency, model: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(engine, latency, {"model_name": model, "engine": "0"}))

    def exposition(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)


class _Families(Collector):
    def __init__(
        self, engine: EngineClient, latency: Latency, vllm_labels: Mapping[str, str]
    ) -> None:
        self._engine = engine
        self._latency = latency
        self._vllm_labels = vllm_labels

    def collect(self) -> Iterator[Metric]:
        for family in self._own():
            # Creation times are of no use here and double what is sent.
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family
            alias = VLLM_ALIASES.get(family.name)
            if alias is not None:
                yield _renamed(family, alias, self._vllm_labels)

    def _own(self) -> Iterator[Metric]:
        latency = self._latency
        for instrument in (
            latency.time_to_first_token,
            latency.inter_token_latency,
            latency.end_to_end,
            latency.finished,
        ):
            yield from instrument.collect()
        yield _gauge(
            "seconds_without_progress",
            "How long work has waited for the end of a step.",
            self._engine.seconds_without_progress(),
        )
        if self._engine.stats is not None:
            yield from _levels(self._engine.stats)
            yield from _counters(self._engine.stats)


def _levels(stats: ReplicaStats) -> Iterator[Metric]:
    pool = stats.pool
    yield _gauge("num_requests_running", "Requests that hold pages.", stats.num_running)
    yield _gauge("num_requests_waiting", "Requests that wait to run.", stats.num_waiting)
    yield _gauge("num_waiting_tokens", "Prompt tokens that wait.", stats.num_waiting_tokens)
    yield _gauge(
        "kv_cache_usage_ratio",
        "Share of the KV pool that requests use, from 0 to 1.",
        pool.num_in_use / pool.num_pages,
    )
    pages = GaugeMetricFamily("okibi:kv_cache_pages", "Pages of the KV pool.", labels=["state"])
    pages.add_metric(["in_use"], pool.num_in_use)
    pages.add_metric(["evictable"], pool.num_evictable)
    pages.add_metric(["free"], pool.num_free)
    yield pages


def _counters(stats: ReplicaStats) -> Iterator[Metric]:
    counters = stats.counters
    yield _counter("prompt_tokens", "Prompt tokens of accepted requests.", counters.prompt_tokens)
    yield _counter("generation_tokens", "Tokens generated.", counters.generation_tokens)
    yield _counter(
        "computed_tokens", "Tokens that went through the model.", counters.computed_tokens
    )
    yield _counter("prefix_query_tokens", "Prompt tokens looked up.", counters.prefix_query_tokens)
    yield _counter("prefix_hit_tokens", "Of these, found cached.", counters.prefix_hit_tokens)
    num_local = counters.prefix_query_tokens - counters.prefix_hit_tokens
    sources = CounterMetricFamily(
        "okibi:prompt_tokens_by_source", "Where prompt tokens' KV came from.", labels=["source"]
    )
    sources.add_metric(["local_compute"], num_local)
    sources.add_metric(["local_cache_hit"], counters.prefix_hit_tokens)
    sources.add_metric(["external_kv_transfer"], 0)
    yield sources
    yield _counter("steps", "Steps that have ended.", counters.num_steps)
    yield _counter("preemptions", "Requests put back to wait.", counters.num_preemptions)
    yield _counter("requests_rejected", "Requests refused by the engine.", counters.num_rejected)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"okibi:{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"okibi:{name}", help_text, value=value)


def _renamed(family: Metric, name: str, labels: Mapping[str, str]) -> Metric:
    alias = Metric(name, family.documentation, family.type, family.unit)
    alias.samples = list(_renamed_samples(family.samples, family.name, name, labels))
    return alias


def _renamed_samples(
    samples: Iterable[Sample], old: str, new: str, labels: Mapping[str, str]
) -> Iterator[Sample]:
    for sample in samples:
        own = {_LABEL_ALIASES.get(key, key): value for key, value in sample.labels.items()}
        yield sample._replace(name=new + sample.name.removeprefix(old), labels={**labels, **own})
