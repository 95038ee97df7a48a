"""Chooses the one page size and packs every layer's state into it.

Owns the arithmetic from KV specs to a `KVCacheLayout`. All layers of one liveness rule share a
group and lie one after another in a page; slice offsets and the page stride are aligned, and the
bytes lost to that are padding. The group that needs most for `block_tokens` tokens sets the page
size; the blocks of others are as many times longer as fit. Never allocates anything.
"""

from collections.abc import Sequence

from okibi.core.errors import ConfigError
from okibi.core.ids import GroupId
from okibi.core.kv_layout import GroupLayout, KVCacheLayout, LayerSlice
from okibi.core.kv_spec import KVCacheSpec

ALIGNMENT_BYTES = 64
MIN_BLOCKS = 2
"""Of each group: one, and the copy of a shared partial one."""


def solve_layout(
    specs: Sequence[KVCacheSpec],
    *,
    block_tokens: int,
    prefix_match_unit: int,
    memory_bytes: int | None = None,
    num_pages: int | None = None,
) -> KVCacheLayout:
    """Pack `specs` into pages of at least `block_tokens` tokens.

    Args:
        specs: One a layer.
        block_tokens: Tokens of the shortest block; a multiple of `prefix_match_unit`.
        prefix_match_unit: Granularity of prefix hits, in tokens.
        memory_bytes: Size of the arena. Ignored if `num_pages` is given.
        num_pages: Pages of the arena.

    Raises:
        ConfigError: the numbers do not fit together, or the memory holds too few pages.
    """
    _check_granularity(block_tokens, prefix_match_unit)
    kinds = _by_liveness(specs)
    needs = [_packed_bytes(kind, block_tokens) for kind in kinds]
    page_size_bytes = max(needs)
    groups = tuple(
        _pack_group(GroupId(index), kind, block_tokens * (page_size_bytes // need))
        for index, (kind, need) in enumerate(zip(kinds, needs, strict=True))
    )
    if num_pages is None:
        if memory_bytes is None:
            raise ConfigError("give the KV pool a size: --kv-cache-memory-bytes")
        num_pages = memory_bytes // page_size_bytes
    min_pages = MIN_BLOCKS * sum(group.pages_per_block for group in groups)
    if num_pages < min_pages:
        raise ConfigError(
            f"the KV pool holds {num_pages} pages of {page_size_bytes} bytes, at least "
            f"{min_pages} are needed: raise --kv-cache-memory-bytes or lower --block-size"
        )
    return KVCacheLayout(
        page_size_bytes=page_size_bytes,
        num_pages=num_pages,
        prefix_match_unit=prefix_match_unit,
        groups=groups,
    )


def _check_granularity(block_tokens: int, prefix_match_unit: int) -> None:
    if block_tokens < 1 or prefix_match_unit < 1:
        raise ConfigError("--block-size and --prefix-match-unit must be at least 1")
    if block_tokens % prefix_match_unit:
        raise ConfigError(
            f"--prefix-match-unit {prefix_match_unit} must divide --block-size {block_tokens}"
        )


def _by_liveness(specs: Sequence[KVCacheSpec]) -> list[list[KVCacheSpec]]:
    kinds: dict[str, list[KVCacheSpec]] = {}
    for spec in specs:
        kinds.setdefault(spec.liveness, []).append(spec)
    return list(kinds.values())


def _packed_bytes(specs: Sequence[KVCacheSpec], block_tokens: int) -> int:
    return sum(_align(spec.bytes_per_block(block_tokens)) for spec in specs)


def _pack_group(group_id: GroupId, specs: Sequence[KVCacheSpec], block_tokens: int) -> GroupLayout:
    slices: list[LayerSlice] = []
    offset = 0
    for spec in specs:
        num_bytes = spec.bytes_per_block(block_tokens)
        slices.append(LayerSlice(spec=spec, offset_bytes=offset, num_bytes=num_bytes))
        offset = _align(offset + num_bytes)
    return GroupLayout(group_id=group_id, block_tokens=block_tokens, slices=tuple(slices))


def _align(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
