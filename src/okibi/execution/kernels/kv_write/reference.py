"""Scatters keys and values into the pages of one layer, in plain torch."""

import torch


def kv_write(
    pages_P2KBD: torch.Tensor,
    k_TKD: torch.Tensor,
    v_TKD: torch.Tensor,
    page_T: torch.Tensor,
    offset_T: torch.Tensor,
) -> None:
    """Write token `t` into slot `offset_T[t]` of page `page_T[t]`, in place.

    Args:
        pages_P2KBD: One layer's view: pages, (key, value), KV heads, slots of a block, head_dim.
        k_TKD, v_TKD: Tokens, KV heads, head_dim.
        page_T, offset_T: int64.
    """
    pages_P2KBD[page_T, 0, :, offset_T] = k_TKD
    pages_P2KBD[page_T, 1, :, offset_T] = v_TKD
