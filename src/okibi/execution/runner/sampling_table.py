"""Sampling parameters of all requests as arrays, so that a step reads them by row.

Lives on the host: what a batch needs (greedy only? any penalty?) is decided here without asking
the device. Token ids outside of the vocabulary are dropped: no such token can be chosen.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from okibi.core.plan import AdmittedRequest

NO_LOGPROBS = -1
INITIAL_ROWS = 16
_UINT64_MASK = 2**64 - 1

PARAMS = np.dtype(
    [
        ("num_prompt_tokens", np.int64),
        ("min_tokens", np.int64),
        ("temperature", np.float64),
        ("top_k", np.int64),
        ("top_p", np.float64),
        ("min_p", np.float64),
        ("presence", np.float32),
        ("frequency", np.float32),
        ("repetition", np.float32),
        ("penalised", np.bool_),
        ("seed", np.uint64),
        ("num_logprobs", np.int64),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitEdits:
    """Sparse changes to a batch of logits: entry (row, token) takes `value`."""

    rows: np.ndarray
    token_ids: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingBatch:
    """What the sampled rows of one step ask for.

    Attributes:
        params: `PARAMS`, one a sampled row.
        output_positions: Number of tokens generated before this one, uint64.
        biases: Values are added.
        masked: Tokens that may not come yet; values are minus infinity.
    """

    params: np.ndarray
    output_positions: np.ndarray
    biases: LogitEdits
    masked: LogitEdits


@dataclass(frozen=True, slots=True)
class _SparseRow:
    token_ids: np.ndarray
    values: np.ndarray


class SamplingTable:
    """One row a request."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._params = np.zeros(INITIAL_ROWS, dtype=PARAMS)
        self._biases: dict[int, _SparseRow] = {}
        self._stops: dict[int, _SparseRow] = {}

    def admit(self, row: int, request: AdmittedRequest) -> None:
        self.clear(row)
        if row >= len(self._params):
            self._params = np.resize(self._params, 2 * row)
        sampling = request.sampling
        self._params[row] = (
            request.num_prompt_tokens,
            sampling.min_tokens,
            sampling.temperature,
            sampling.top_k if 0 < sampling.top_k < self._vocab_size else self._vocab_size,
            sampling.top_p,
            sampling.min_p,
            sampling.presence_penalty,
            sampling.frequency_penalty,
            sampling.repetition_penalty,
            sampling.needs_history,
            (sampling.seed or 0) & _UINT64_MASK,
            NO_LOGPROBS if sampling.logprobs is None else sampling.logprobs,
        )
        biases = [pair for pair in sampling.logit_bias if self._in_vocab(pair[0])]
        if biases:
            ids, values = zip(*biases, strict=True)
            self._biases[row] = _sparse_row(ids, values)
        stops = [token for token in request.stop_ids if self._in_vocab(token)]
        if sampling.min_tokens and stops:
            self._stops[row] = _sparse_row(stops, [-np.inf] * len(stops))

    def clear(self, row: int) -> None:
        self._biases.pop(row, None)
        self._stops.pop(row, None)

    def batch(self, rows: np.ndarray, ends: np.ndarray) -> SamplingBatch:
        """The batch of sampled rows whose sequences are `ends` tokens long."""
        params = self._params[rows]
        num_output = ends - params["num_prompt_tokens"]
        too_short = num_output < params["min_tokens"]
        return SamplingBatch(
            params=params,
            output_positions=num_output.astype(np.uint64),
            biases=_gather(self._biases, enumerate(rows.tolist())),
            masked=_gather(
                self._stops, ((i, row) for i, row in enumerate(rows.tolist()) if too_short[i])
            ),
        )

    def _in_vocab(self, token_id: int) -> bool:
        return 0 <= token_id < self._vocab_size


def _sparse_row(token_ids: Iterable[int], values: Iterable[float]) -> _SparseRow:
    return _SparseRow(
        np.array(list(token_ids), dtype=np.int64), np.array(list(values), dtype=np.float32)
    )


def _gather(sparse: dict[int, _SparseRow], rows: Iterable[tuple[int, int]]) -> LogitEdits:
    """The entries of table rows, under the index each row has in the batch."""
    found = [(index, sparse[row]) for index, row in rows if row in sparse] if sparse else []
    if not found:
        empty = np.empty(0, dtype=np.int64)
        return LogitEdits(rows=empty, token_ids=empty, values=np.empty(0, dtype=np.float32))
    return LogitEdits(
        rows=np.repeat([index for index, _ in found], [len(part.token_ids) for _, part in found]),
        token_ids=np.concatenate([part.token_ids for _, part in found]),
        values=np.concatenate([part.values for _, part in found]),
    )
