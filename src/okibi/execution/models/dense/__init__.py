"""The dense decoders: Llama, Mistral, Qwen2, Qwen3."""

from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.dense.weights import load_weights, locate_weights
from okibi.execution.models.family import ModelFamily

DENSE = ModelFamily(build=DenseModel, check_weights=locate_weights, load_weights=load_weights)

__all__ = ["DENSE"]
