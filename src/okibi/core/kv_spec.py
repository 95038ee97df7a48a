"""What one layer keeps between steps, in numbers.

A spec answers "how many blocks for so many tokens, of how many bytes?" and states its axis order;
it never touches memory. A new kind of state is a new class that answers `KVCacheSpec`'s questions,
and a line in the table of `kvcache.groups`, not a new branch elsewhere. Parallelism reaches the
cache only as the numbers in these specs (heads per rank and so on).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class KVDType(StrEnum):
    """Element type of cached state, named as in PyTorch."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def num_bytes(self) -> int:
        return _NUM_BYTES[self]


_NUM_BYTES = {KVDType.FLOAT32: 4, KVDType.BFLOAT16: 2, KVDType.FLOAT16: 2}


class KVCacheSpec(Protocol):
    """What a layout must know about one layer's state."""

    @property
    def layer(self) -> int: ...

    @property
    def liveness(self) -> str:
        """Name and parameters of the rule by which state stays needed.

        Layers with the same liveness share a group, whatever their bytes.
        """
        ...

    def num_blocks(self, num_tokens: int, block_tokens: int) -> int:
        """Blocks that a sequence of `num_tokens` tokens keeps; never falls as it grows."""
        ...

    def bytes_per_block(self, block_tokens: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttentionSpec:
    """Keys and values of every token, for one layer.

    Memory order of one block: `[2 (key, value), num_kv_heads, block_tokens, head_dim]`.
    """

    layer: int
    num_kv_heads: int
    head_dim: int
    dtype: KVDType

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_kv_heads * self.head_dim * self.dtype.num_bytes

    @property
    def liveness(self) -> str:
        return "full_attention"

    def num_blocks(self, num_tokens: int, block_tokens: int) -> int:
        return -(-num_tokens // block_tokens)

    def bytes_per_block(self, block_tokens: int) -> int:
        return self.bytes_per_token * block_tokens
