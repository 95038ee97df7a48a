"""The program of a loaded model, whichever kernels it runs on."""

from okibi.core.kv_layout import KVCacheLayout
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.models.family import Model
from okibi.execution.models.loader import LoadedModel
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.native_program import NativeProgram
from okibi.execution.runner.program import Program
from okibi.execution.runner.torch_program import TorchProgram


def make_program(
    model: LoadedModel, layout: KVCacheLayout, arena: PageArena, tables: BlockTables
) -> Program:
    """Join the model to its pages.

    Raises:
        ConfigError: the model's kernels cannot use such a layout.
    """
    if isinstance(model.module, Model):
        return TorchProgram(model.module, layout, arena, tables)
    return NativeProgram(model.module, layout, arena, tables, model.arch.vocab_size)
