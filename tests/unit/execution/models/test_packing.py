"""Packed matrices hold what the checkpoint stores, exactly where that is promised."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as QType
from numpy.typing import NDArray
from transformers import LlamaConfig

from okibi.core.kv_spec import KVDType
from okibi.execution.models.checkpoint import open_checkpoint
from tests.support.gguf_files import write_gguf
from tests.support.memory_checkpoint import MemoryCheckpoint
from tests.support.tiny_models import SHAPE, make_transformers_model

native = pytest.importorskip("okibi._native", reason="the C++ part was not built")
from okibi.execution.models.packing import Packer, Rows  # noqa: E402

# Quantised blocks are 32 wide.
WIDE: dict[str, Any] = SHAPE | {"hidden_size": 64, "intermediate_size": 64}
FLOAT32, BFLOAT16 = KVDType.FLOAT32, KVDType.BFLOAT16


def unpacked(matrix: Any) -> NDArray[np.float32]:
    """The weights [outputs, inputs]: what the slowest kernel makes of the unit vectors."""
    out = np.empty((matrix.num_inputs, matrix.num_outputs), np.float32)
    native.kernel_linear(
        "portable", matrix, np.eye(matrix.num_inputs, dtype=np.float32), "store", out
    )
    return out.T


def random_matrix(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def packed(
    tensors: Mapping[str, torch.Tensor], dtype: KVDType, parts: list[Rows], num_outputs: int
) -> NDArray[np.float32]:
    return unpacked(Packer(MemoryCheckpoint(tensors), dtype).pack(parts, num_outputs))


@pytest.mark.parametrize(
    ("stored", "dtype", "kept"),
    [
        (torch.float32, FLOAT32, torch.float32),
        (torch.bfloat16, FLOAT32, torch.bfloat16),
        (torch.float16, FLOAT32, torch.float16),
        (torch.float32, BFLOAT16, torch.bfloat16),
        (torch.bfloat16, BFLOAT16, torch.bfloat16),
        (torch.float16, BFLOAT16, torch.bfloat16),
    ],
)
def test_floats_lose_only_what_the_model_type_asks_for(
    stored: torch.dtype, dtype: KVDType, kept: torch.dtype
):
    tensor = random_matrix(0, 21, 40).to(stored)
    outputs = np.arange(21, dtype=np.int32)
    result = packed({"w": tensor}, dtype, [Rows(tensor="w", outputs=outputs)], 21)
    assert np.array_equal(result, tensor.to(kept).float().numpy())


def test_parts_go_where_they_are_sent_and_the_rest_is_zero():
    tensors = {"a": random_matrix(1, 5, 32), "b": random_matrix(2, 3, 32).bfloat16()}
    places = {"a": np.array([30, 0, 7, 16, 3], np.int32), "b": np.array([1, 31, 15], np.int32)}
    parts = [Rows(tensor=name, outputs=outputs) for name, outputs in places.items()]
    expected = np.zeros((32, 32), np.float32)
    for name, outputs in places.items():
        expected[outputs] = tensors[name].float().numpy()
    assert np.array_equal(packed(tensors, FLOAT32, parts, 32), expected)


@pytest.mark.parametrize("qtype", [QType.Q8_0, QType.Q4_0, QType.Q4_1, QType.Q5_0, QType.F16])
def test_quantised_rows_mean_what_they_mean_dequantised(qtype: QType, tmp_path: Path):
    path = tmp_path / "model.gguf"
    write_gguf(path, make_transformers_model(LlamaConfig(**WIDE)), qtype=qtype)
    checkpoint, name = open_checkpoint(path), "blk.0.ffn_gate.weight"
    num_outputs = checkpoint.tensors[name].shape[0]
    outputs = np.arange(num_outputs, dtype=np.int32)
    matrix = Packer(checkpoint, FLOAT32).pack([Rows(tensor=name, outputs=outputs)], num_outputs)
    expected = checkpoint.read(name).numpy()
    # Scale and minimum are multiplied before and after the sum over a block.
    np.testing.assert_allclose(unpacked(matrix), expected, rtol=0.0, atol=1e-6)
