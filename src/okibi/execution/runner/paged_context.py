"""A model's `attend`, over the pages of a layout.

Owns the views that layers have of the arena. Writes a layer's new keys and values, then attends.
"""

import torch

from okibi.core.kv_layout import KVCacheLayout
from okibi.execution.kernels.kv_write import kv_write
from okibi.execution.kernels.paged_attention import paged_attention
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.layers.attention import Attend, AttentionSpec
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.input_batch import InputBatch


class PagedContext:
    """The layers' views of an arena, made once."""

    def __init__(self, layout: KVCacheLayout, arena: PageArena, tables: BlockTables) -> None:
        self._tables = tables
        self._layers = {
            part.spec.layer: (group.group_id, arena.layer_view(group, part))
            for group in layout.groups
            for part in group.slices
        }

    def attend(self, batch: InputBatch) -> Attend:
        """`attend` for one batch."""

        def attend(
            spec: AttentionSpec, q_TND: torch.Tensor, k_TKD: torch.Tensor, v_TKD: torch.Tensor
        ) -> torch.Tensor:
            group_id, pages_P2KBD = self._layers[spec.layer]
            slots = batch.slots[group_id]
            kv_write(pages_P2KBD, k_TKD, v_TKD, slots.page_T, slots.offset_T)
            return paged_attention(
                q_TND,
                pages_P2KBD,
                self._tables.table(group_id),
                batch.spans,
                scale=spec.scale,
                window=spec.window,
            )

        return attend
