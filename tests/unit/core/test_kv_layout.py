"""What a layout says of itself."""

import pytest

from okibi.core.ids import GroupId
from okibi.core.kv_layout import GroupLayout, KVCacheLayout, LayerSlice
from tests.support.builders import make_specs


def make_layout(num_pages: int, *shapes: tuple[int, int]) -> KVCacheLayout:
    """Groups of (block_tokens, pages_per_block)."""
    (spec,) = make_specs()
    part = LayerSlice(spec=spec, offset_bytes=0, num_bytes=64)
    groups = tuple(
        GroupLayout(
            group_id=GroupId(index),
            block_tokens=block_tokens,
            pages_per_block=pages_per_block,
            slices=(part,),
        )
        for index, (block_tokens, pages_per_block) in enumerate(shapes)
    )
    return KVCacheLayout(
        page_size_bytes=64, num_pages=num_pages, prefix_match_unit=1, groups=groups
    )


@pytest.mark.parametrize(
    ("num_pages", "shapes", "expected"),
    [
        (10, [(4, 1)], 36),
        (10, [(4, 2)], 16),
        (11, [(4, 2)], 16),
        (7, [(4, 1), (8, 1)], 12),
        (8, [(4, 1), (8, 1)], 16),
        (12, [(4, 1), (8, 2)], 16),
        (2, [(4, 1), (8, 1)], 0),
        (1, [(4, 2)], 0),
    ],
)
def test_max_tokens_counts_whole_blocks_of_every_group(num_pages, shapes, expected):
    assert make_layout(num_pages, *shapes).max_tokens() == expected


def test_a_sequence_keeps_all_pages_of_every_block_it_began():
    (group,) = make_layout(9, (4, 3)).groups
    assert [group.num_pages(n) for n in (0, 1, 4, 5)] == [0, 3, 3, 6]
