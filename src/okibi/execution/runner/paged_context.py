"""A model's `attend`, over the pages of a layout.

Owns the views that layers have of the arena. Writes a layer's new keys and values, then attends.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from okibi.core.ids import GroupId
from okibi.core.kv_layout import KVCacheLayout
from okibi.execution.kernels.kv_write import kv_write
from okibi.execution.kernels.paged_attention import QuerySpan, paged_attention
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.layers.attention import Attend, AttentionSpec
from okibi.execution.runner.block_tables import BlockTables


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlots:
    """Where the batch's keys and values of one group go, token by token (int64)."""

    page_T: torch.Tensor
    offset_T: torch.Tensor


class PagedContext:
    """The layers' views of an arena, made once."""

    def __init__(self, layout: KVCacheLayout, arena: PageArena, tables: BlockTables) -> None:
        self._layout = layout
        self._tables = tables
        self._layers = {
            part.spec.layer: (group.group_id, arena.layer_view(group, part))
            for group in layout.groups
            for part in group.slices
        }

    def attend(
        self, spans_S4: NDArray[np.int64], row_T: torch.Tensor, positions_T: torch.Tensor
    ) -> Attend:
        """`attend` for one batch.

        Args:
            spans_S4: As in `InputBatch`.
            row_T, positions_T: Row of the block tables and position of each token (int64).
        """
        slots = self.slots(row_T, positions_T)
        spans = tuple(
            QuerySpan(table_row=row, first=first, num_tokens=length, start=start)
            for row, first, length, start in spans_S4.tolist()
        )

        def attend(
            spec: AttentionSpec, q_TND: torch.Tensor, k_TKD: torch.Tensor, v_TKD: torch.Tensor
        ) -> torch.Tensor:
            group_id, pages_P2KBD = self._layers[spec.layer]
            own = slots[group_id]
            kv_write(pages_P2KBD, k_TKD, v_TKD, own.page_T, own.offset_T)
            return paged_attention(
                q_TND,
                pages_P2KBD,
                self._tables.table(group_id),
                spans,
                scale=spec.scale,
                window=spec.window,
            )

        return attend

    def slots(self, row_T: torch.Tensor, positions_T: torch.Tensor) -> dict[GroupId, GroupSlots]:
        """Where each token's keys and values go, by group."""
        slots: dict[GroupId, GroupSlots] = {}
        for group in self._layout.groups:
            table = self._tables.table(group.group_id)
            block_T = positions_T // group.block_tokens
            slots[group.group_id] = GroupSlots(
                page_T=table[row_T, block_T].long(), offset_T=positions_T % group.block_tokens
            )
        return slots
