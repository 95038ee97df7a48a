"""Whether a token just generated ends its request."""

from okibi.control.scheduler.state import RequestState
from okibi.core.output import FinishReason


def judge_token(
    state: RequestState, token_id: int, eos_token_ids: tuple[int, ...]
) -> FinishReason | None:
    """The reason to finish after `token_id`, which `state` has taken already; else None."""
    sampling = state.request.sampling
    num_output = state.sequence.num_output_tokens
    is_stop = token_id in sampling.stop_token_ids or (
        token_id in eos_token_ids and not sampling.ignore_eos
    )
    if is_stop and num_output > sampling.min_tokens:
        return FinishReason.STOP
    if num_output >= sampling.max_tokens:
        return FinishReason.LENGTH
    return None
