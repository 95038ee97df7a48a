"""The flattened tokens of one plan, and the spans of them that belong to one sequence each.

All chunks of a plan are one batch, whatever they are: prompt, chunk of a prompt, or one token.
Python loops run over chunks, never over tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from okibi.core.errors import ExecutorError
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import ScheduledChunk
from okibi.core.token_source import TOKEN_BYTES
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.request_rows import RequestRows
from okibi.execution.runner.token_ring import TokenRing


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBatch:
    """One forward pass, as every program takes it.

    Attributes:
        token_ids_T: int64, on the device.
        spans_S4: int64 [spans, (table row, first token, number of tokens, start)]: one a chunk, in
            plan order; they cover the tokens one after another.
        sampled_R: Index of the last token of each sampling chunk, in plan order (int32).
    """

    token_ids_T: torch.Tensor
    spans_S4: NDArray[np.int64]
    sampled_R: NDArray[np.int32]


class InputBatchBuilder:
    """Makes the input batch of a plan's chunks."""

    def __init__(
        self,
        layout: KVCacheLayout,
        rows: RequestRows,
        tables: BlockTables,
        ring: TokenRing,
        vocab_size: int,
        device: torch.device,
    ) -> None:
        self._layout = layout
        self._rows = rows
        self._tables = tables
        self._ring = ring
        self._vocab_size = vocab_size
        self._device = device

    def build(self, chunks: Sequence[ScheduledChunk]) -> InputBatch:
        """Build the batch of at least one chunk.

        Raises:
            ExecutorError: a chunk has no ids, or lies outside its block table or vocabulary.
        """
        lengths = np.array([chunk.num_tokens for chunk in chunks])
        first = np.cumsum(lengths) - lengths
        starts = np.array([chunk.start for chunk in chunks])
        rows = np.array([self._rows.row(chunk.request_id) for chunk in chunks])
        self._check_tables(chunks, rows.tolist())
        last = first + lengths - 1
        return InputBatch(
            token_ids_T=self._token_ids(chunks, last),
            spans_S4=np.stack((rows, first, lengths, starts), axis=1),
            sampled_R=last[[chunk.samples for chunk in chunks]].astype(np.int32),
        )

    def _token_ids(self, chunks: Sequence[ScheduledChunk], last: np.ndarray) -> torch.Tensor:
        """Known ids from the plan, the ones in flight from the ring."""
        packed = b"".join(_packed_ids(chunk) for chunk in chunks)
        ids = np.frombuffer(packed, dtype="<i4").astype(np.int64)
        if ids.min() < 0 or ids.max() >= self._vocab_size:
            raise ExecutorError(f"the plan has token ids outside of 0..{self._vocab_size - 1}")
        token_ids_T = self._to_device(ids)
        refs = [chunk.ref for chunk in chunks if chunk.ref is not None]
        if refs:
            in_flight = last[[chunk.ref is not None for chunk in chunks]]
            token_ids_T[self._to_device(in_flight)] = self._ring.resolve(refs)
        return token_ids_T

    def _check_tables(self, chunks: Sequence[ScheduledChunk], rows: Sequence[int]) -> None:
        for group in self._layout.groups:
            for chunk, row in zip(chunks, rows, strict=True):
                held = self._tables.num_blocks(group.group_id, row)
                if chunk.end > held * group.block_tokens:
                    raise ExecutorError(
                        f"request {chunk.request_id!r} has pages for {held * group.block_tokens} "
                        f"tokens, the plan computes up to {chunk.end}"
                    )

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)


def _packed_ids(chunk: ScheduledChunk) -> bytes:
    """The chunk's ids, with a zero where the last one is still in flight."""
    if chunk.drafts:
        raise ExecutorError("this executor does not verify draft tokens")
    if chunk.tokens is None:
        raise ExecutorError(f"the plan has no token ids for request {chunk.request_id!r}")
    packed = chunk.tokens if chunk.ref is None else chunk.tokens + bytes(TOKEN_BYTES)
    if len(packed) != chunk.num_tokens * TOKEN_BYTES or not packed:
        raise ExecutorError(
            f"request {chunk.request_id!r}: {len(packed) // TOKEN_BYTES} token ids for a chunk of "
            f"{chunk.num_tokens}"
        )
    return packed
