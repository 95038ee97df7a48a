"""Chooses one token a row from logits, for all rows at once.

Order: bias, penalties, mask of early stops; then greedy, or temperature, top_k, top_p, min_p and
a draw. Greedy takes the smallest id among the largest logits. Reported logprobs are those of the
unmodified logits. A step whose rows are all plain greedy costs nothing here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from okibi.core.ids import RequestId
from okibi.execution.kernels.sampling import (
    cut_min_p,
    cut_top_k_top_p,
    draw,
    penalise,
    uniforms,
)
from okibi.execution.runner.row_logits import RowLogits
from okibi.execution.runner.sampling_table import NO_LOGPROBS, LogitEdits, SamplingBatch
from okibi.execution.runner.token_counts import TokenCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class LogprobRows:
    """Log probabilities of the rows that asked for them.

    Attributes:
        rows: Their indices among the sampled rows.
        num_top: Alternatives each asked for.
        chosen_L: Of the sampled tokens.
        top_LN, top_ids_LN: The most likely tokens, best first; N is the largest `num_top`.
    """

    rows: list[int]
    num_top: list[int]
    chosen_L: torch.Tensor
    top_LN: torch.Tensor
    top_ids_LN: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTokens:
    """What a step sampled, still on the device.

    Attributes:
        token_ids_R: int64.
        finite_R: Whether all logits of a row were numbers (bool).
    """

    token_ids_R: torch.Tensor
    finite_R: torch.Tensor
    logprobs: LogprobRows | None


class Sampler:
    """Samples rows; remembers only what penalties need."""

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def sample(
        self, logits: RowLogits, batch: SamplingBatch, request_ids: Sequence[RequestId]
    ) -> SampledTokens:
        """Choose a token for each row.

        Args:
            logits: Not modified.
            request_ids: Whose row each is.
        """
        logits_RV = logits.values_RV
        penalised = np.flatnonzero(batch.params["penalised"]).tolist()
        penalised_ids = [request_ids[row] for row in penalised]
        adjusted_RV = _biased(logits_RV, batch.biases)
        if penalised:
            adjusted_RV = self._penalised(adjusted_RV, batch.params, penalised, penalised_ids)
        adjusted_RV = _masked(adjusted_RV, batch.masked)
        is_plain = adjusted_RV is logits_RV
        token_ids_R = logits.best_R.clone() if is_plain else adjusted_RV.argmax(dim=-1)
        random_rows = np.flatnonzero(batch.params["temperature"] > 0.0)
        if len(random_rows):
            index = torch.from_numpy(random_rows).to(logits_RV.device)
            token_ids_R[index] = _draw_rows(adjusted_RV[index], batch, random_rows)
        if penalised:
            self._counts.add(penalised_ids, token_ids_R[penalised])
        return SampledTokens(
            token_ids_R=token_ids_R,
            finite_R=logits.finite_R,
            logprobs=_logprobs(logits_RV, token_ids_R, batch.params["num_logprobs"]),
        )

    def _penalised(
        self,
        logits_RV: torch.Tensor,
        params: np.ndarray,
        rows: list[int],
        request_ids: list[RequestId],
    ) -> torch.Tensor:
        output_counts_RV, in_prompt_RV = self._counts.gather(request_ids)
        device = logits_RV.device
        result_RV = logits_RV.clone()
        result_RV[rows] = penalise(
            logits_RV[rows],
            output_counts_RV,
            in_prompt_RV,
            repetition_R1=_column(params["repetition"][rows], device),
            frequency_R1=_column(params["frequency"][rows], device),
            presence_R1=_column(params["presence"][rows], device),
        )
        return result_RV


def _biased(logits_RV: torch.Tensor, edits: LogitEdits) -> torch.Tensor:
    if not len(edits):
        return logits_RV
    index, values = _edit_tensors(edits, logits_RV.device)
    return logits_RV.index_put(index, values, accumulate=True)


def _masked(logits_RV: torch.Tensor, edits: LogitEdits) -> torch.Tensor:
    if not len(edits):
        return logits_RV
    index, values = _edit_tensors(edits, logits_RV.device)
    return logits_RV.index_put(index, values)


def _edit_tensors(
    edits: LogitEdits, device: torch.device
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    rows = torch.from_numpy(edits.rows).to(device)
    token_ids = torch.from_numpy(edits.token_ids).to(device)
    return (rows, token_ids), torch.from_numpy(edits.values).to(device)


def _draw_rows(logits_RV: torch.Tensor, batch: SamplingBatch, rows: np.ndarray) -> torch.Tensor:
    """Tokens for rows with a temperature; `logits_RV` holds just those rows."""
    params, device = batch.params[rows], logits_RV.device
    # The largest logit becomes 0 first: a tiny temperature then cannot overflow.
    shifted_RV = logits_RV - logits_RV.amax(dim=-1, keepdim=True)
    scaled_RV = (shifted_RV / _column(params["temperature"], device)).float()
    cut = np.flatnonzero((params["top_k"] < logits_RV.shape[-1]) | (params["top_p"] < 1.0))
    if len(cut):
        index = torch.from_numpy(cut).to(device)
        scaled_RV[index] = cut_top_k_top_p(
            scaled_RV[index],
            _column(params["top_k"][cut], device),
            _column(params["top_p"][cut], device),
        )
    if (params["min_p"] > 0.0).any():
        scaled_RV = cut_min_p(scaled_RV, _column(params["min_p"], device))
    uniform = uniforms(params["seed"], batch.output_positions[rows])
    return draw(scaled_RV, _column(uniform, device))


def _logprobs(
    logits_RV: torch.Tensor, token_ids_R: torch.Tensor, num_logprobs: np.ndarray
) -> LogprobRows | None:
    rows = np.flatnonzero(num_logprobs != NO_LOGPROBS).tolist()
    if not rows:
        return None
    logprobs_LV = logits_RV[rows].log_softmax(dim=-1)
    chosen_L = logprobs_LV.gather(-1, token_ids_R[rows][:, None]).squeeze(-1)
    num_top = num_logprobs[rows].tolist()
    top = logprobs_LV.topk(min(max(num_top), logits_RV.shape[-1]), dim=-1)
    return LogprobRows(
        rows=rows,
        num_top=num_top,
        chosen_L=chosen_L,
        top_LN=top.values,
        top_ids_LN=top.indices,
    )


def _column(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values.copy()).to(device)[:, None]
