"""Checks on a call before anything is submitted."""

import msgspec
import pytest

from okibi.core.token_source import PackedTokens
from okibi.server.engine_protocol import Ready
from okibi.server.http.call import Call, CallContext, build_call, checked_choices
from okibi.server.http.errors import ApiError
from okibi.server.http.schemas import GenerationFields
from tests.support.builders import make_replica

LIMITS = Ready(
    max_model_len=100,
    prefix_match_unit=16,
    pool_tokens=100,
    vocab_size=50,
    eos_token_ids=(0,),
    max_unfinished=300,
    scheduling_policy="fcfs",
    stats=make_replica().stats(),
)


def call_of(*token_ids: int, limits: Ready = LIMITS, priority: int = 0) -> Call:
    context = CallContext(
        call_id="c",
        model="m",
        field="prompt",
        limits=limits,
        choices=2,
        session="",
        conversation="",
        seed=1,
    )
    return build_call(
        GenerationFields(priority=priority),
        [PackedTokens.of(token_ids)],
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
    assert checked_choices(GenerationFields(n=2), 128, LIMITS) == 2
    with pytest.raises(ApiError, match="256") as caught:
        checked_choices(GenerationFields(n=3), 128, LIMITS)
    assert caught.value.status == 400


def test_more_requests_than_the_engine_takes_are_refused_before_any_text_is_read():
    limits = msgspec.structs.replace(LIMITS, max_unfinished=4)
    assert checked_choices(GenerationFields(n=2), 2, limits) == 2
    with pytest.raises(ApiError, match="takes 4") as caught:
        checked_choices(GenerationFields(n=5), 1, limits)
    assert (caught.value.status, caught.value.code) == (429, "queue_full")
    assert caught.value.retry_after_s


def test_a_priority_that_would_be_ignored_is_refused():
    by_priority = msgspec.structs.replace(LIMITS, scheduling_policy="priority")
    assert call_of(1, priority=-3, limits=by_priority).requests[0].priority == -3
    with pytest.raises(ApiError, match="--scheduling-policy") as caught:
        call_of(1, priority=1)
    assert caught.value.param == "priority"


def test_an_overflow_names_the_field_to_shorten():
    with pytest.raises(ApiError, match="length of the prompt") as caught:
        call_of(*[1] * 100)
    assert caught.value.param == "prompt"
