"""A torch module over paged keys and values.

Owns what a module needs beyond the batch itself: positions, and the slots of new keys and values.
Both are made on the device from the block tables by array arithmetic.
"""

import numpy as np
import torch

from okibi.core.kv_layout import KVCacheLayout
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.models.family import Model
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.input_batch import InputBatch
from okibi.execution.runner.paged_context import PagedContext
from okibi.execution.runner.row_logits import RowLogits, row_logits


class TorchProgram:
    """Runs a module in one forward pass; only sampled rows go through the output matrix."""

    def __init__(
        self, module: Model, layout: KVCacheLayout, arena: PageArena, tables: BlockTables
    ) -> None:
        self._module = module
        self._context = PagedContext(layout, arena, tables)

    def run(self, batch: InputBatch) -> RowLogits | None:
        row_S, first_S, length_S, start_S = batch.spans_S4.T
        device = batch.token_ids_T.device
        positions = np.repeat(start_S - first_S, length_S) + np.arange(length_S.sum())
        positions_T = torch.from_numpy(positions).to(device, non_blocking=True)
        row_T = torch.from_numpy(np.repeat(row_S, length_S)).to(device, non_blocking=True)
        attend = self._context.attend(batch.spans_S4, row_T, positions_T)
        x_TH = self._module(batch.token_ids_T, positions_T, attend)
        if not len(batch.sampled_R):
            return None
        sampled_R = torch.from_numpy(batch.sampled_R).to(device, non_blocking=True)
        return row_logits(self._module.logits(x_TH[sampled_R]))
