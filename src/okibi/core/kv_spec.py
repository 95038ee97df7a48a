"""What one layer keeps between steps, in numbers.

A spec answers "how many bytes for so many tokens?" and states its axis order; it never touches
memory. A new kind of state is a new class here, not a new branch elsewhere. Parallelism reaches
the cache only as the numbers in these specs (heads per rank and so on).
"""

from dataclasses import dataclass
from enum import StrEnum


class KVDType(StrEnum):
    """Element type of cached state, named as in PyTorch."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def num_bytes(self) -> int:
        return 4 if self is KVDType.FLOAT32 else 2


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

    def bytes_per_block(self, block_tokens: int) -> int:
        return self.bytes_per_token * block_tokens


KVCacheSpec = FullAttentionSpec
