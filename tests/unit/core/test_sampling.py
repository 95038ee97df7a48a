"""Sampling parameters outside their range are refused with the field named."""

from typing import Any

import pytest

from okibi.core.sampling import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", 2**63),
        ("min_tokens", -1),
        ("min_tokens", 11),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", 1e9),
        ("top_p", 0.0),
        ("top_p", 2.0),
        ("top_p", float("nan")),
        ("top_k", -1),
        ("min_p", 1.5),
        ("presence_penalty", 3.0),
        ("frequency_penalty", float("inf")),
        ("repetition_penalty", 0.0),
        ("logit_bias", ((1, 101.0),)),
        ("logit_bias", ((1, float("nan")),)),
        ("logit_bias", tuple((i, 0.0) for i in range(5000))),
        ("stop_token_ids", tuple(range(10_000))),
        ("logprobs", 21),
        ("seed", 2**64),
    ],
)
def test_a_value_out_of_range_names_its_field(field: str, value: object) -> None:
    values: dict[str, Any] = {"max_tokens": 10, field: value}
    with pytest.raises(ValueError, match=field):
        SamplingParams(**values)


def test_history_is_needed_exactly_with_penalties() -> None:
    assert not SamplingParams(max_tokens=1, top_k=3, seed=1).needs_history
    for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
        values: dict[str, Any] = {name: 0.5}
        assert SamplingParams(max_tokens=1, **values).needs_history
