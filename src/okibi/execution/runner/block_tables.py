"""Which page holds which block of which request, on the device.

One int32 table a group: a row a request, a column a block. Tables persist between steps and only
grow; an update touches just the entries that changed. Stale entries beyond a request's blocks are
never read.
"""

from collections.abc import Sequence

import numpy as np
import torch

from okibi.core.errors import ExecutorError
from okibi.core.ids import GroupId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import BlockTableUpdate
from okibi.execution.runner.request_rows import RequestRows

INITIAL_ROWS = 16
INITIAL_BLOCKS = 64


class BlockTables:
    """The block tables of all groups."""

    def __init__(self, layout: KVCacheLayout, device: torch.device) -> None:
        self._num_pages = layout.num_pages
        self._device = device
        self._tables: dict[GroupId, torch.Tensor] = {
            group.group_id: torch.zeros(
                (INITIAL_ROWS, INITIAL_BLOCKS), dtype=torch.int32, device=device
            )
            for group in layout.groups
        }
        self._num_blocks: dict[tuple[GroupId, int], int] = {}

    def table(self, group_id: GroupId) -> torch.Tensor:
        """int32 [rows, blocks]."""
        return self._tables[group_id]

    def num_blocks(self, group_id: GroupId, row: int) -> int:
        return self._num_blocks.get((group_id, row), 0)

    def clear(self, row: int) -> None:
        for group_id in self._tables:
            self._num_blocks.pop((group_id, row), None)

    def update(self, updates: Sequence[BlockTableUpdate], rows: RequestRows) -> None:
        """Apply all updates of a plan.

        Raises:
            ExecutorError: an update leaves a gap or names a page that does not exist.
        """
        for group_id in self._tables:
            own = [update for update in updates if update.group_id == group_id and update.pages]
            if own:
                self._update_group(group_id, own, rows)

    def _update_group(
        self, group_id: GroupId, updates: Sequence[BlockTableUpdate], rows: RequestRows
    ) -> None:
        parts = [np.frombuffer(update.pages, dtype=np.int32) for update in updates]
        lengths = [len(part) for part in parts]
        starts = np.array([update.start_block for update in updates])
        table_rows = [rows.row(update.request_id) for update in updates]
        for row, update, length in zip(table_rows, updates, lengths, strict=True):
            held = self.num_blocks(group_id, row)
            if update.start_block > held:
                raise ExecutorError(f"a gap in the block table of {update.request_id!r}")
            self._num_blocks[group_id, row] = max(held, update.start_block + length)
        pages = np.concatenate(parts)
        if pages.min() < 0 or pages.max() >= self._num_pages:
            raise ExecutorError(f"the plan names a page outside of 0..{self._num_pages - 1}")
        columns = np.repeat(starts - _exclusive_sum(lengths), lengths) + np.arange(len(pages))
        table = self._grown(group_id, max(table_rows) + 1, int(columns.max()) + 1)
        index = (self._to_device(np.repeat(table_rows, lengths)), self._to_device(columns))
        table.index_put_(index, self._to_device(pages))

    def _grown(self, group_id: GroupId, num_rows: int, num_blocks: int) -> torch.Tensor:
        table = self._tables[group_id]
        old_rows, old_blocks = table.shape
        if num_rows > old_rows or num_blocks > old_blocks:
            new_rows = max(old_rows, 2 * num_rows if num_rows > old_rows else 0)
            new_blocks = max(old_blocks, 2 * num_blocks if num_blocks > old_blocks else 0)
            grown = table.new_zeros((new_rows, new_blocks))
            grown[:old_rows, :old_blocks] = table
            self._tables[group_id] = table = grown
        return table

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)


def _exclusive_sum(lengths: Sequence[int]) -> np.ndarray:
    return np.cumsum(lengths) - lengths
