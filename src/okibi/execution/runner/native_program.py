"""A native model over paged keys and values.

The model reads and writes the arena and the block table in place; only ids, spans and logits cross,
as arrays. Never runs Python for a token.
"""

import numpy as np
import torch

from okibi.core.errors import ConfigError
from okibi.core.kv_layout import GroupLayout, KVCacheLayout
from okibi.core.kv_spec import FullAttentionSpec
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.models.native import NativeModel
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.input_batch import InputBatch
from okibi.execution.runner.row_logits import RowLogits


class NativeProgram:
    """Runs a native model. Its logits are a buffer that the next run overwrites."""

    def __init__(
        self,
        model: NativeModel,
        layout: KVCacheLayout,
        arena: PageArena,
        tables: BlockTables,
        vocab_size: int,
    ) -> None:
        """Bind the model to the arena.

        Raises:
            ConfigError: the layout has several groups, or keeps what the model does not know.
        """
        if len(layout.groups) != 1:
            raise ConfigError(
                f"native kernels read one block table, the layout has {len(layout.groups)}: "
                "use --kernels reference"
            )
        (group,) = layout.groups
        specs = _specs(group)
        model.bind_pages(
            arena.as_numpy(),
            group.block_tokens,
            specs[0].dtype,
            [part.offset_bytes for part in sorted(group.slices, key=lambda part: part.spec.layer)],
        )
        self._model = model
        self._group_id = group.group_id
        self._tables = tables
        self._logits_RV = np.empty((0, vocab_size), np.float32)

    def run(self, batch: InputBatch) -> RowLogits | None:
        num_rows = len(batch.sampled_R)
        if num_rows > len(self._logits_RV):
            self._logits_RV = np.empty((2 * num_rows, self._logits_RV.shape[1]), np.float32)
        logits_RV = self._logits_RV[:num_rows]
        choices_R = np.empty(num_rows, np.int32)
        self._model.forward(
            batch.token_ids_T.numpy().astype(np.int32),
            batch.spans_S4,
            self._tables.table(self._group_id).numpy(),
            batch.sampled_R,
            logits_RV,
            choices_R,
        )
        if not num_rows:
            return None
        return RowLogits(
            values_RV=torch.from_numpy(logits_RV),
            best_R=torch.from_numpy(choices_R.clip(min=0).astype(np.int64)),
            finite_R=torch.from_numpy(choices_R >= 0),
        )


def _specs(group: GroupLayout) -> list[FullAttentionSpec]:
    specs = [part.spec for part in group.slices]
    known = [spec for spec in specs if isinstance(spec, FullAttentionSpec)]
    if len(known) != len(specs) or len({spec.dtype for spec in known}) != 1:
        raise ConfigError("native kernels keep keys and values of one type and nothing else")
    return known
