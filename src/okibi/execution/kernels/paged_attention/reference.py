"""Paged attention in plain torch: the oracle of every faster twin.

The only code that may gather pages into dense keys and values, and only one sequence at a time.
Queries are taken in tiles, so that no mask is larger than a tile times the context, and a tile
reads no key beyond its last position or before its window.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812

from okibi.execution.kernels.paged_attention.span import QuerySpan

QUERY_TILE = 256


def paged_attention(
    q_TND: torch.Tensor,
    pages_P2KBD: torch.Tensor,
    block_tables: torch.Tensor,
    spans: Sequence[QuerySpan],
    *,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Causal attention of each span over its own sequence, at most `window` positions back.

    Args:
        q_TND: Tokens, heads, head_dim; the heads are a multiple of the KV heads.
        pages_P2KBD: One layer's view: pages, (key, value), KV heads, slots of a block, head_dim.
        block_tables: int32 [rows, blocks]: the page of each block.
        spans: Cover all tokens.
        window: Number of most recent positions seen, the token's own included.

    Returns:
        o_TND, like `q_TND`.
    """
    o_TND = torch.empty_like(q_TND)
    for span in spans:
        rows = slice(span.first, span.first + span.num_tokens)
        table = block_tables[span.table_row]
        o_TND[rows] = _attend_one(q_TND[rows], pages_P2KBD, table, span.start, scale, window)
    return o_TND


def _attend_one(
    q_TND: torch.Tensor,
    pages_P2KBD: torch.Tensor,
    table: torch.Tensor,
    start: int,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    num_tokens = q_TND.shape[0]
    oldest = 0 if window is None else max(0, start - window + 1)
    kv_2KSD = _gather(pages_P2KBD, table, oldest, start + num_tokens)
    tiles = []
    for first in range(0, num_tokens, QUERY_TILE):
        last = min(first + QUERY_TILE, num_tokens)
        seen = 0 if window is None else max(oldest, start + first - window + 1) - oldest
        k_KSD, v_KSD = kv_2KSD[:, :, seen : start + last - oldest]
        mask = _mask(start + first, start + last, oldest + seen, window, q_TND.device)
        tile = F.scaled_dot_product_attention(
            q_TND[first:last].transpose(0, 1)[None],
            k_KSD[None],
            v_KSD[None],
            attn_mask=mask,
            scale=scale,
            enable_gqa=True,
        )
        tiles.append(tile[0].transpose(0, 1))
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles)


def _gather(pages_P2KBD: torch.Tensor, table: torch.Tensor, oldest: int, end: int) -> torch.Tensor:
    """Keys and values of positions `[oldest, end)` as [2, KV heads, positions, head_dim]."""
    block_tokens = pages_P2KBD.shape[3]
    first_block = oldest // block_tokens
    blocks = table[first_block : -(-end // block_tokens)]
    # Selecting along the page axis of the permuted view lands in the final order in one copy.
    kv_2KnBD = pages_P2KBD.permute(1, 2, 0, 3, 4).index_select(2, blocks)
    skipped = first_block * block_tokens
    return kv_2KnBD.flatten(2, 3)[:, :, oldest - skipped : end - skipped]


def _mask(
    start: int, end: int, oldest: int, window: int | None, device: torch.device
) -> torch.Tensor | None:
    """True where the query at `[start, end)` sees the key at `[oldest, end)`; None for all."""
    if end - start == 1:
        return None
    query_T1 = torch.arange(start, end, device=device)[:, None]
    key_S = torch.arange(oldest, end, device=device)
    seen_TS = key_S <= query_T1
    return seen_TS if window is None else seen_TS & (key_S > query_T1 - window)
