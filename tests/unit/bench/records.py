"""Builders of request records for the metrics and report tests."""

from typing import Any

from okibi.bench.replay.records import RequestFailure, RequestRecord, RequestResult

RESULT_FIELDS = {
    "start_s", "end_s", "first_token_s", "last_token_s", "prompt_tokens", "cached_tokens",
    "completion_tokens", "failure",
}  # fmt: skip


def record(**changes: Any) -> RequestRecord:
    """A request of 1,000 prompt tokens (600 cached) and 11 output tokens: TTFT 0.5 s, ITL 0.1 s."""
    result: dict[str, Any] = {
        "start_s": 10.0,
        "first_token_s": 10.5,
        "last_token_s": 11.5,
        "end_s": 11.5,
        "prompt_tokens": 1000,
        "cached_tokens": 600,
        "completion_tokens": 11,
    }
    fields: dict[str, Any] = {
        "trace_id": "t",
        "play": 0,
        "lane": 0,
        "conversation": "t",
        "turn": 0,
        "depth": 0,
        "correlation_id": "c",
        "due_s": 10.0,
        "recorded_input_tokens": 990,
        "recorded_output_tokens": 11,
        "theoretical_hit_blocks": 9,
        "theoretical_total_blocks": 15,
        "num_reusable_blocks": 10,
    }
    for name, value in changes.items():
        (result if name in RESULT_FIELDS else fields)[name] = value
    return RequestRecord(**fields, result=RequestResult(**result))


def failed(kind: str, **changes: Any) -> RequestRecord:
    empty = dict.fromkeys(
        ("first_token_s", "last_token_s", "prompt_tokens", "cached_tokens", "completion_tokens")
    )
    failure = RequestFailure(kind=kind, message="why")
    return record(**(empty | {"failure": failure} | changes))
