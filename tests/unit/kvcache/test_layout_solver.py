"""Packing layers into pages."""

import pytest

from okibi.core.errors import ConfigError
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.kvcache.layout_solver import solve_layout


def spec(layer: int, *, heads: int = 3, dtype: KVDType = KVDType.FLOAT32) -> FullAttentionSpec:
    return FullAttentionSpec(layer=layer, num_kv_heads=heads, head_dim=64, dtype=dtype)


class SideSpec(FullAttentionSpec):
    """The same state under a liveness rule of its own."""

    @property
    def liveness(self) -> str:
        return "side"


def side_spec(layer: int, *, heads: int) -> SideSpec:
    return SideSpec(layer=layer, num_kv_heads=heads, head_dim=64, dtype=KVDType.FLOAT32)


def test_smollm2_takes_45_kib_a_token_in_fp32() -> None:
    layout = solve_layout(
        [spec(i) for i in range(30)], block_tokens=32, prefix_match_unit=16, memory_bytes=2**30
    )
    assert layout.page_size_bytes == 32 * 45 * 1024
    assert layout.num_pages == 2**30 // (32 * 45 * 1024)
    assert layout.max_tokens() == (layout.num_pages - 1) * 32


def test_slices_are_disjoint_and_aligned() -> None:
    odd = FullAttentionSpec(layer=0, num_kv_heads=1, head_dim=5, dtype=KVDType.BFLOAT16)
    layout = solve_layout([odd] * 3, block_tokens=3, prefix_match_unit=1, num_pages=4)
    (group,) = layout.groups
    end = 0
    for part in group.slices:
        assert part.offset_bytes % 64 == 0
        assert part.offset_bytes >= end
        end = part.offset_bytes + part.num_bytes
    assert layout.page_size_bytes >= end
    assert layout.page_size_bytes % 64 == 0


@pytest.mark.parametrize(
    ("kwargs", "flag"),
    [
        ({"block_tokens": 32, "prefix_match_unit": 12, "num_pages": 9}, "--prefix-match-unit"),
        ({"block_tokens": 32, "prefix_match_unit": 16, "memory_bytes": 1}, "--kv-cache-memory"),
        ({"block_tokens": 0, "prefix_match_unit": 16, "num_pages": 9}, "--block-size"),
    ],
)
def test_numbers_that_do_not_fit_name_the_flag(kwargs: dict[str, int], flag: str) -> None:
    with pytest.raises(ConfigError, match=flag):
        solve_layout([spec(0)], **kwargs)


def test_layers_are_grouped_by_liveness_and_never_by_their_bytes() -> None:
    specs = [spec(0), side_spec(1, heads=3), spec(2, heads=1), side_spec(3, heads=3)]
    layout = solve_layout(specs, block_tokens=16, prefix_match_unit=16, num_pages=9)
    layers = [[part.spec.layer for part in group.slices] for group in layout.groups]
    assert layers == [[0, 2], [1, 3]]
    assert [group.group_id for group in layout.groups] == [0, 1]


def test_a_pool_holds_a_block_and_a_copy_of_each_group() -> None:
    specs = [spec(0), side_spec(1, heads=3)]
    solve_layout(specs, block_tokens=16, prefix_match_unit=16, num_pages=4)
    with pytest.raises(ConfigError, match="at least 4 are needed"):
        solve_layout(specs, block_tokens=16, prefix_match_unit=16, num_pages=3)


def test_the_neediest_group_sets_the_page_and_others_have_longer_blocks() -> None:
    specs = [side_spec(0, heads=1), spec(1, heads=7)]
    layout = solve_layout(specs, block_tokens=4, prefix_match_unit=2, num_pages=9)
    light, heavy = layout.groups
    assert layout.page_size_bytes == heavy.payload_bytes == light.payload_bytes
    assert (light.block_tokens, heavy.block_tokens) == (28, 4)
