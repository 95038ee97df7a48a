"""The optional C++ part. Arrays are C-contiguous NumPy arrays in the memory of the CPU.

Calls raise ValueError on what does not fit together. The kernels that only tests and benchmarks
call one by one are not listed in detail.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def chain_digests(
    parent: bytes, data: bytes | bytearray | memoryview, unit_bytes: int, /
) -> bytes: ...
def kernel_levels() -> list[str]:
    """The instruction sets that this machine can run, slowest first."""

class WeightMemory:
    """Memory that the matrices of a model share, so that small ones lie in huge pages too."""

    def __init__(self) -> None: ...

class PackedMatrix:
    """A weight matrix in the order the kernels read it, filled row by row.

    Its `source` is the format that rows are stored in: F32, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K.
    """

    def __init__(
        self, memory: WeightMemory, source: str, num_outputs: int, num_inputs: int
    ) -> None: ...
    def write(self, rows: NDArray[np.uint8], outputs: NDArray[np.int32]) -> None:
        """Store `rows` [n, row_bytes] as the weights of `outputs` [n]."""

    @property
    def num_outputs(self) -> int: ...
    @property
    def num_inputs(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...

class DecoderShape:
    def __init__(
        self,
        *,
        hidden_size: int,
        intermediate_size: int,
        vocab_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        norm_epsilon: float,
        rope_frequencies: Sequence[float],
        rope_magnitude: float,
    ) -> None: ...

class Linear:
    """Matrices of the same inputs, outputs side by side; `bias` is of all outputs or empty."""

    def __init__(self, parts: Sequence[PackedMatrix], bias: Sequence[float]) -> None: ...

class DecoderLayer:
    """One layer; `window` is 0 where a position sees all before it, norms of heads may be empty."""

    def __init__(
        self,
        *,
        attention_norm: Sequence[float],
        qkv: Linear,
        q_norm: Sequence[float],
        k_norm: Sequence[float],
        o: Linear,
        mlp_norm: Sequence[float],
        gate_up: Linear,
        down: Linear,
        window: int,
    ) -> None: ...

class DenseDecoder:
    """All layers of a dense decoder, and the threads that run them."""

    def __init__(
        self,
        level: str,
        num_threads: int,
        shape: DecoderShape,
        layers: Sequence[DecoderLayer],
        embedding: PackedMatrix,
        norm: Sequence[float],
        head: PackedMatrix,
    ) -> None: ...
    def bind_pages(
        self,
        arena: NDArray[np.uint8],
        block_tokens: int,
        dtype: str,
        layer_offsets: Sequence[int],
    ) -> None:
        """Read and write keys and values in `arena` [pages, page bytes] from now on."""

    def forward(
        self,
        token_ids: NDArray[np.int32],
        spans: NDArray[np.int64],
        block_table: NDArray[np.int32],
        sampled: NDArray[np.int32],
        logits: NDArray[np.float32],
        choices: NDArray[np.int32],
    ) -> None:
        """Run tokens [T] of spans [S, (table row, first, length, start)]; logits [R, vocab].

        `choices` [R] get the token of each row's largest logit, or -1 if they are not finite.
        """

    def take_seconds(self) -> dict[str, float]:
        """Seconds spent in each phase since the last call."""

def kernel_linear(
    level: str,
    matrix: PackedMatrix,
    x: NDArray[np.float32],
    epilogue: str,
    out: NDArray[np.float32],
) -> None: ...
def kernel_rms_norm(
    level: str,
    x: NDArray[np.float32],
    weight: NDArray[np.float32],
    epsilon: float,
    out: NDArray[np.float32],
) -> None: ...
def kernel_paged_attention(*args: Any, **named: Any) -> None: ...
def kernel_choose(level: str, logits: NDArray[np.float32]) -> int: ...
def run_loops(num_threads: int, loops: Sequence[int]) -> list[int]: ...
