"""What is said of a model's cache holds for every kind of state."""

from dataclasses import dataclass

from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.launch.model_facts import kv_bytes_per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedState:
    """One block, however long the sequence."""

    layer: int
    liveness: str = "fixed"

    def num_blocks(self, num_tokens: int, block_tokens: int) -> int:
        return 1

    def bytes_per_block(self, block_tokens: int) -> int:
        return 1 << 20


def test_only_what_grows_with_the_sequence_counts():
    attention = FullAttentionSpec(layer=0, num_kv_heads=2, head_dim=16, dtype=KVDType.BFLOAT16)
    assert kv_bytes_per_token([attention]) == attention.bytes_per_token == 128
    assert kv_bytes_per_token([attention, FixedState(layer=1)]) == 128
