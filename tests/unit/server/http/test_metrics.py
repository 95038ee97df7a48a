"""The metric contract: names, types and labels are fixed, and the numbers add up (A56)."""

import re
from collections.abc import Iterator

import pytest

from tests.support.serving import MODEL, RunningServer, Setup, running_server

# Name, type and labels (without a histogram's `le`). Changing a line breaks someone's dashboard.
GOLDEN = """\
okibi:computed_tokens_total counter
okibi:e2e_request_latency_seconds histogram
okibi:generation_tokens_total counter
okibi:inter_token_latency_seconds histogram
okibi:kv_cache_pages gauge state
okibi:kv_cache_usage_ratio gauge
okibi:num_requests_running gauge
okibi:num_requests_waiting gauge
okibi:num_waiting_tokens gauge
okibi:preemptions_total counter
okibi:prefix_hit_tokens_total counter
okibi:prefix_query_tokens_total counter
okibi:prompt_tokens_by_source_total counter source
okibi:prompt_tokens_total counter
okibi:requests_finished_total counter reason
okibi:requests_rejected_total counter
okibi:seconds_without_progress gauge
okibi:steps_total counter
okibi:time_to_first_token_seconds histogram
vllm:e2e_request_latency_seconds histogram engine,model_name
vllm:generation_tokens_total counter engine,model_name
vllm:inter_token_latency_seconds histogram engine,model_name
vllm:kv_cache_usage_perc gauge engine,model_name
vllm:num_preemptions_total counter engine,model_name
vllm:num_requests_running gauge engine,model_name
vllm:num_requests_waiting gauge engine,model_name
vllm:prefix_cache_hits_total counter engine,model_name
vllm:prefix_cache_queries_total counter engine,model_name
vllm:prompt_tokens_by_source_total counter engine,model_name,source
vllm:prompt_tokens_total counter engine,model_name
vllm:request_success_total counter engine,finished_reason,model_name
vllm:time_to_first_token_seconds histogram engine,model_name
"""
_SAMPLE = re.compile(r"(?P<name>[\w:]+)(?:\{(?P<labels>[^}]*)\})? ")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(Setup(num_pages=512, unit=4)) as running:
        client = running.client()
        prompt = [5 + index % 90 for index in range(300)]
        for length in (300, 300, 200, 250):
            body = {"prompt": prompt[:length], "max_tokens": 5}
            assert client.post("/v1/completions", json=body).status_code == 200
        yield running


def contract(exposition: str) -> str:
    types: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in exposition.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match, line
            name = re.sub(r"_(bucket|sum|count)$", "", match["name"])
            keys = {part.split("=")[0] for part in (match["labels"] or "").split(",") if part}
            labels.setdefault(name, set()).update(keys - {"le"})
    lines = [f"{n} {types[n]} {','.join(sorted(labels[n]))}".strip() for n in sorted(labels)]
    return "\n".join(lines) + "\n"


def test_a_fresh_server_publishes_every_name():
    with running_server() as server:
        assert contract(server.client().get("/metrics").text) == GOLDEN


def test_names_types_and_labels_are_as_published(server: RunningServer):
    assert contract(server.client().get("/metrics").text) == GOLDEN


def test_every_prompt_token_has_one_source(server: RunningServer):
    queries = server.metric("okibi:prefix_query_tokens_total")
    hits = server.metric("okibi:prefix_hit_tokens_total")
    assert queries == 300 + 300 + 200 + 250
    assert hits == 299 // 4 * 4 + 199 // 4 * 4 + 249 // 4 * 4
    name = "okibi:prompt_tokens_by_source_total"
    assert server.metric(name, source="local_compute") == queries - hits
    assert server.metric(name, source="local_cache_hit") == hits
    assert server.metric(name, source="external_kv_transfer") == 0
    decoded = server.metric("okibi:generation_tokens_total") - 4
    assert server.metric("okibi:computed_tokens_total") == queries - hits + decoded


def test_aliases_have_the_same_values(server: RunningServer):
    for ours, theirs in (
        ("okibi:prefix_query_tokens_total", "vllm:prefix_cache_queries_total"),
        ("okibi:prefix_hit_tokens_total", "vllm:prefix_cache_hits_total"),
        ("okibi:generation_tokens_total", "vllm:generation_tokens_total"),
        ("okibi:time_to_first_token_seconds_count", "vllm:time_to_first_token_seconds_count"),
    ):
        assert server.metric(ours) == server.metric(theirs, model_name=MODEL) > 0
    ended = server.metric("vllm:request_success_total", finished_reason="length")
    assert ended == server.metric("okibi:requests_finished_total", reason="length") == 4


def test_everything_returns_to_the_baseline(server: RunningServer):
    assert server.metric("okibi:num_requests_running") == 0
    assert server.metric("okibi:num_requests_waiting") == 0
    assert server.metric("okibi:kv_cache_pages", state="in_use") == 0
    assert server.metric("okibi:kv_cache_pages", state="evictable") > 0


def test_a_reset_drops_what_nobody_uses(server: RunningServer):
    assert server.client().post("/reset_prefix_cache").status_code == 200
    body = {"prompt": [5 + index % 90 for index in range(300)], "max_tokens": 1}
    usage = server.client().post("/v1/completions", json=body).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
