"""The weights of a dense decoder as the native kernels take them.

Owns which tensors make which product and the order of its outputs: query, key and value stay
matrices of their own, so that each keeps its format; panels of gate and up alternate, so that a
kernel has both halves of an activation at hand. Names, and the heads that GGUF interleaves, are
those of `weights.py`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from okibi._native import DecoderLayer, Linear, PackedMatrix
from okibi.core.arch.dense import DenseArch
from okibi.core.kv_spec import KVDType
from okibi.execution.models.checkpoint import Checkpoint
from okibi.execution.models.dense.weights import (
    is_interleaved,
    locate_weights,
    split_halves,
)
from okibi.execution.models.packing import Packer, Rows

PANEL_OUTPUTS = 16
_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


class NativeWeights:
    """Packs what a layer or the model asks for.

    Every method raises `ModelError` where a tensor cannot be read.
    """

    def __init__(self, arch: DenseArch, checkpoint: Checkpoint, dtype: KVDType) -> None:
        self._arch = arch
        self._checkpoint = checkpoint
        self._sources = locate_weights(arch, checkpoint)
        self._packer = Packer(checkpoint, dtype)

    def layer(self, index: int) -> DecoderLayer:
        """All weights of one layer."""
        prefix = f"model.layers.{index}."
        return DecoderLayer(
            attention_norm=self.vector(f"{prefix}input_layernorm.weight"),
            qkv=self._side_by_side([prefix + name for name in _QKV]),
            q_norm=self._optional_vector(f"{prefix}self_attn.q_norm.weight"),
            k_norm=self._optional_vector(f"{prefix}self_attn.k_norm.weight"),
            o=self._side_by_side([f"{prefix}self_attn.o_proj"]),
            mlp_norm=self.vector(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self._gate_up(f"{prefix}mlp."),
            down=self._side_by_side([f"{prefix}mlp.down_proj"]),
            window=self._arch.layer_windows[index] or 0,
        )

    def matrix(self, name: str) -> PackedMatrix:
        """The matrix of a Hugging Face name, its outputs in the model's order."""
        source = self._sources[name]
        num_outputs = self._checkpoint.tensors[source].shape[0]
        outputs = np.empty(num_outputs, np.int32)
        outputs[self._order(name, num_outputs)] = np.arange(num_outputs, dtype=np.int32)
        return self._packer.pack([Rows(tensor=source, outputs=outputs)], num_outputs)

    def vector(self, name: str) -> list[float]:
        """The norm's weight or the bias of a Hugging Face name, in the model's order."""
        values = self._checkpoint.read(self._sources[name]).to(torch.float32)
        return values[self._order(name, len(values))].tolist()

    def _optional_vector(self, name: str) -> list[float]:
        return self.vector(name) if name in self._sources else []

    def _side_by_side(self, stems: Sequence[str]) -> Linear:
        parts = [self.matrix(f"{stem}.weight") for stem in stems]
        bias = [value for stem in stems for value in self._optional_vector(f"{stem}.bias")]
        return Linear(parts, bias)

    def _gate_up(self, prefix: str) -> Linear:
        inner = self._arch.intermediate_size
        places = panel_places(inner)
        num_outputs = 2 * -(-inner // PANEL_OUTPUTS) * PANEL_OUTPUTS
        stems = (f"{prefix}gate_proj", f"{prefix}up_proj")
        rows = [
            Rows(tensor=self._sources[f"{stem}.weight"], outputs=outputs)
            for stem, outputs in zip(stems, places, strict=True)
        ]
        bias: list[float] = []
        if f"{stems[0]}.bias" in self._sources:
            joined = np.zeros(num_outputs, np.float32)
            for stem, outputs in zip(stems, places, strict=True):
                joined[outputs] = self.vector(f"{stem}.bias")
            bias = joined.tolist()
        return Linear([self._packer.pack(rows, num_outputs)], bias)

    def _order(self, name: str, num_outputs: int) -> NDArray[np.int64]:
        """Which stored row each output of the model is."""
        order = torch.arange(num_outputs)
        if is_interleaved(name, self._arch, self._checkpoint.format):
            order = split_halves(order, self._arch.head_dim)
        return order.numpy()


def panel_places(inner: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where gate and up outputs go: a panel of gate, a panel of up, and so on."""
    index = np.arange(inner, dtype=np.int32)
    gate = index // PANEL_OUTPUTS * (2 * PANEL_OUTPUTS) + index % PANEL_OUTPUTS
    return gate, gate + np.int32(PANEL_OUTPUTS)
