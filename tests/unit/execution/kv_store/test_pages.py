"""The arena: views lie where the layout says, copies copy whole pages in order."""

import dataclasses
from typing import Any

import pytest
import torch

from okibi.core.errors import ConfigError
from okibi.core.ids import PageId
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.plan import PageCopy
from okibi.execution.kv_store.pages import PageArena, free_memory_bytes
from okibi.kvcache.layout_solver import solve_layout

CPU = torch.device("cpu")


def make_arena(num_pages: int = 5, dtype: KVDType = KVDType.FLOAT32) -> PageArena:
    """Two layers of different shape; the first is padded to the alignment."""
    shapes = ((3, 2), (1, 8))
    specs = [
        FullAttentionSpec(layer=layer, num_kv_heads=heads, head_dim=dim, dtype=dtype)
        for layer, (heads, dim) in enumerate(shapes)
    ]
    layout = solve_layout(specs, block_tokens=2, prefix_match_unit=1, num_pages=num_pages)
    return PageArena(layout, CPU)


def views(arena: PageArena) -> list[torch.Tensor]:
    (group,) = arena.layout.groups
    return [arena.layer_view(group, part) for part in group.slices]


@pytest.mark.parametrize("dtype", list(KVDType))
def test_views_are_where_the_layout_says(dtype: KVDType):
    arena = make_arena(dtype=dtype)
    (group,) = arena.layout.groups
    assert any(part.offset_bytes % 64 == 0 and part.num_bytes % 64 for part in group.slices)
    raw = arena.layer_view(group, _whole_page(arena))
    for part, view in zip(group.slices, views(arena), strict=True):
        spec = part.spec
        assert isinstance(spec, FullAttentionSpec)
        assert view.shape == (5, 2, spec.num_kv_heads, 2, spec.head_dim)
        view.copy_(torch.randn(view.shape))
        first = part.offset_bytes // spec.dtype.num_bytes
        for page in range(5):
            expected = view[page].flatten()
            stored = raw[page].flatten()[first : first + expected.numel()]
            assert stored.equal(expected)


def _whole_page(arena: PageArena) -> Any:
    """A slice as large as a page, to look at it flat."""
    (group,) = arena.layout.groups
    first = group.slices[0].spec
    assert isinstance(first, FullAttentionSpec)
    dtype = first.dtype
    spec = FullAttentionSpec(
        layer=0,
        num_kv_heads=1,
        head_dim=arena.layout.page_size_bytes // dtype.num_bytes // 4,
        dtype=dtype,
    )
    return dataclasses.replace(group.slices[0], spec=spec, offset_bytes=0)


def test_layers_do_not_overlap():
    arena = make_arena()
    first, second = views(arena)
    first.fill_(1.0)
    second.fill_(2.0)
    assert (first == 1.0).all()


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([], [0, 1, 2, 3, 4]),
        ([(1, 3), (2, 4)], [0, 1, 2, 1, 2]),
        ([(1, 3), (1, 4)], [0, 1, 2, 1, 1]),
        ([(1, 2), (2, 3)], [0, 1, 1, 1, 4]),
        ([(1, 2), (3, 1)], [0, 3, 1, 3, 4]),
    ],
)
def test_copies_run_in_order(copies: list[tuple[int, int]], expected: list[int]):
    arena = make_arena()
    for view in views(arena):
        view.copy_(torch.arange(5.0)[:, None, None, None, None].expand_as(view))
    arena.copy_pages([PageCopy(source=PageId(a), target=PageId(b)) for a, b in copies])
    for view in views(arena):
        assert view[:, 0, 0, 0, 0].tolist() == expected
        assert (view == view[:, :1, :1, :1, :1]).all()


def test_too_large_an_arena_names_the_flag():
    num_pages = free_memory_bytes(CPU) // 64
    with pytest.raises(ConfigError, match="--kv-cache-memory-bytes"):
        make_arena(num_pages=num_pages)


def test_a_block_of_several_pages_is_refused():
    layout = make_arena().layout
    groups = tuple(dataclasses.replace(group, pages_per_block=2) for group in layout.groups)
    with pytest.raises(ConfigError, match="group 0 2 pages; this executor keeps a block in one"):
        PageArena(dataclasses.replace(layout, groups=groups), CPU)
