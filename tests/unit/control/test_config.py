"""Configurations that cannot act are refused with the flag named."""

from typing import Any

import pytest

from okibi.control.config import ReplicaConfig
from okibi.core.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "flag"),
    [
        ({"max_num_seqs": 0}, "--max-num-seqs"),
        ({"max_num_batched_tokens": 8, "max_num_seqs": 9}, "--max-num-batched-tokens"),
        ({"long_prefill_token_threshold": 512}, "--long-prefill-token-threshold"),
        ({"scheduling_policy": "random"}, "--scheduling-policy"),
        ({"max_inflight_steps": 3}, "--max-inflight-steps"),
    ],
)
def test_refusals_name_the_flag(overrides: dict[str, Any], flag: str) -> None:
    with pytest.raises(ConfigError, match=flag):
        ReplicaConfig(model_fingerprint="m", max_model_len=100, **overrides)
