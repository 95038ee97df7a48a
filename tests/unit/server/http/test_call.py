"""Checks on a call before anything is submitted."""

import pytest

from okibi.core.token_source import PackedTokens
from okibi.server.engine_protocol import Ready
from okibi.server.http.call import Call, CallContext, build_call
from okibi.server.http.errors import ApiError
from okibi.server.http.schemas import GenerationFields
from tests.support.builders import make_replica

LIMITS = Ready(
    max_model_len=100,
    prefix_match_unit=16,
    pool_tokens=100,
    vocab_size=50,
    eos_token_ids=(0,),
    stats=make_replica().stats(),
)


def call_of(*token_ids: int, n: int = 2, num_prompts: int = 1) -> Call:
    context = CallContext(call_id="c", model="m", limits=LIMITS, conversation="", seed=1)
    return build_call(
        GenerationFields(n=n),
        [PackedTokens.of(token_ids)] * num_prompts,
        context,
        max_tokens=None,
        logprobs=None,
        renamed={},
    )


def test_choices_share_a_prompt_and_differ_in_seed():
    first, second = call_of(1, 2, 49).requests
    assert first.prompt is second.prompt
    assert first.sampling.max_tokens == 97
    assert first.sampling.seed != second.sampling.seed


def test_a_token_that_the_model_does_not_know_is_refused():
    with pytest.raises(ApiError, match="token 50") as caught:
        call_of(1, 50, 2)
    assert caught.value.status == 400


def test_choices_and_prompts_do_not_multiply_without_end():
    assert len(call_of(1, n=2, num_prompts=128).requests) == 256
    with pytest.raises(ApiError, match="256"):
        call_of(1, n=3, num_prompts=128)
