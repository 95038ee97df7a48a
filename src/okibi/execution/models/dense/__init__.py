"""The dense decoders: Llama, Mistral, Qwen2, Qwen3."""

from okibi.core.arch.dense import DenseArch
from okibi.execution.models.checkpoint import Checkpoint
from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.dense.weights import load_weights, locate_weights
from okibi.execution.models.family import ModelFamily
from okibi.execution.models.native import NativeModel, NativeOptions


def _load_native(arch: DenseArch, checkpoint: Checkpoint, options: NativeOptions) -> NativeModel:
    # Whoever has options has the C++ part; a package built without it has nothing to import.
    from okibi.execution.models.dense.native import load_native

    return load_native(arch, checkpoint, options)


DENSE = ModelFamily(
    build=DenseModel,
    check_weights=locate_weights,
    load_weights=load_weights,
    load_native=_load_native,
)

__all__ = ["DENSE"]
