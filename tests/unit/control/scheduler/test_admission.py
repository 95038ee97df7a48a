"""Who is let in."""

from okibi.control.scheduler.admission import AdmissionLimits, Load
from okibi.core.ids import RequestId
from okibi.core.output import RejectReason
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens

LIMITS = AdmissionLimits(servable_len=100, max_unfinished=8, max_waiting_tokens=150)
IDLE = Load(num_unfinished=0, num_waiting_tokens=0)


def request(num_prompt: int, max_tokens: int = 10) -> Request:
    return Request(
        request_id=RequestId("r"),
        prompt=PackedTokens.of(range(num_prompt)),
        sampling=SamplingParams(max_tokens=max_tokens),
    )


def test_a_sequence_that_just_fits_is_taken() -> None:
    assert LIMITS.judge([request(90)], IDLE) is None


def test_one_token_too_many_is_refused_with_both_numbers() -> None:
    refusal = LIMITS.judge([request(91)], IDLE)
    assert refusal is not None
    assert refusal.reason is RejectReason.CONTEXT_LENGTH_EXCEEDED
    assert "maximum context length is 100 tokens" in refusal.message
    assert "101 tokens" in refusal.message
    assert refusal.retry_after_s == 0


def test_choices_are_taken_together_or_not_at_all() -> None:
    load = Load(num_unfinished=6, num_waiting_tokens=0)
    assert LIMITS.judge([request(5)] * 2, load) is None
    refusal = LIMITS.judge([request(5)] * 3, load)
    assert refusal is not None
    assert refusal.reason is RejectReason.QUEUE_FULL
    assert refusal.retry_after_s > 0


def test_waiting_tokens_are_bounded_but_never_block_a_single_request() -> None:
    tight = AdmissionLimits(servable_len=100, max_unfinished=8, max_waiting_tokens=10)
    assert tight.judge([request(80)], IDLE) is None
    assert LIMITS.judge([request(80), request(80)], IDLE) is not None
    refusal = LIMITS.judge([request(80)], Load(num_unfinished=2, num_waiting_tokens=80))
    assert refusal is not None
    assert refusal.reason is RejectReason.QUEUE_FULL


def test_an_empty_prompt_is_invalid() -> None:
    refusal = LIMITS.judge([request(0)], IDLE)
    assert refusal is not None
    assert refusal.reason is RejectReason.INVALID
