"""A step's outcome on the device, and the way to a `StepOutput`.

Reading it waits for the device; until then later steps may be queued.
"""

from dataclasses import dataclass

from okibi.core.ids import RequestId, StepId
from okibi.core.output import SampledRow, TokenLogprobs
from okibi.execution.runner.sampler import LogprobRows, SampledTokens

NOT_FINITE = "the model's logits are not finite"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """`sampled` is None if no row was sampled; else its rows belong to `request_ids`."""

    step_id: StepId
    request_ids: tuple[RequestId, ...]
    sampled: SampledTokens | None

    def to_rows(self) -> tuple[SampledRow, ...]:
        """Wait for the device. A row whose logits are not all numbers is an error of its own."""
        if self.sampled is None:
            return ()
        token_ids: list[int] = self.sampled.token_ids_R.tolist()
        finite: list[bool] = self.sampled.finite_R.tolist()
        logprobs = _logprobs_by_row(self.sampled.logprobs, token_ids)
        return tuple(
            SampledRow(request_id=request_id, token_ids=(token,), logprobs=logprobs.get(index, ()))
            if finite[index]
            else SampledRow(request_id=request_id, token_ids=(), error=NOT_FINITE)
            for index, (request_id, token) in enumerate(
                zip(self.request_ids, token_ids, strict=True)
            )
        )


def _logprobs_by_row(
    logprobs: LogprobRows | None, token_ids: list[int]
) -> dict[int, tuple[TokenLogprobs]]:
    if logprobs is None:
        return {}
    chosen, top = logprobs.chosen_L.tolist(), logprobs.top_LN.tolist()
    top_ids = logprobs.top_ids_LN.tolist()
    return {
        row: (
            TokenLogprobs(
                token_id=token_ids[row],
                logprob=chosen[index],
                top=tuple(zip(top_ids[index][:count], top[index][:count], strict=True)),
            ),
        )
        for index, (row, count) in enumerate(zip(logprobs.rows, logprobs.num_top, strict=True))
    }
