"""The reference attention against a plain formula, over random shapes, pages and windows."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from okibi.execution.kernels.kv_write import kv_write
from okibi.execution.kernels.paged_attention import QuerySpan, paged_attention
from okibi.execution.kernels.paged_attention import reference as paged_attention_reference
from tests.numerics.tolerances import FLOAT32_ATTENTION

SCALE = 0.4


def formula(
    q_TND: torch.Tensor, k_SKD: torch.Tensor, v_SKD: torch.Tensor, window: int | None
) -> torch.Tensor:
    """Softmax attention of the last T of S positions, head by head, in float64."""
    num_tokens, num_heads, _ = q_TND.shape
    length, num_kv_heads, _ = k_SKD.shape
    out = torch.empty_like(q_TND)
    for index in range(num_tokens):
        position = length - num_tokens + index
        oldest = 0 if window is None else max(0, position - window + 1)
        for head in range(num_heads):
            kv_head = head // (num_heads // num_kv_heads)
            keys = k_SKD[oldest : position + 1, kv_head].double()
            weights = (keys @ q_TND[index, head].double() * SCALE).softmax(-1)
            out[index, head] = weights @ v_SKD[oldest : position + 1, kv_head].double()
    return out


class Pages:
    """Keys and values of sequences, scattered over pages by `kv_write`."""

    def __init__(self, kv_heads: int, block_tokens: int, lengths: Sequence[int]) -> None:
        generator = torch.Generator().manual_seed(sum(lengths))
        blocks = [-(-length // block_tokens) for length in lengths]
        self.pages = torch.full((sum(blocks) + 3, 2, kv_heads, block_tokens, 4), torch.nan)
        order = torch.randperm(self.pages.shape[0], generator=generator)
        self.tables = torch.zeros(len(lengths), max(blocks) + 1, dtype=torch.int32)
        self.k = [torch.randn(length, kv_heads, 4, generator=generator) for length in lengths]
        self.v = [torch.randn(length, kv_heads, 4, generator=generator) for length in lengths]
        for row, count in enumerate(blocks):
            self.tables[row, :count], order = order[:count], order[count:]
            position = torch.arange(lengths[row])
            page = self.tables[row, position // block_tokens].long()
            kv_write(self.pages, self.k[row], self.v[row], page, position % block_tokens)


@given(
    shape=st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3), (3, 3)]),
    block_tokens=st.sampled_from([1, 3, 8]),
    sequences=st.lists(st.tuples(st.integers(0, 25), st.integers(1, 13)), min_size=1, max_size=4),
    window=st.sampled_from([None, 1, 2, 7, 100]),
)
def test_equals_the_formula(shape, block_tokens, sequences, window):
    num_heads, kv_heads = shape
    lengths = [start + count for start, count in sequences]
    pages = Pages(kv_heads, block_tokens, lengths)
    num_tokens = sum(count for _, count in sequences)
    q_TND = torch.randn(num_tokens, num_heads, 4, generator=torch.Generator().manual_seed(1))
    spans, expected, first = [], [], 0
    for row, (start, count) in enumerate(sequences):
        spans.append(QuerySpan(table_row=row, first=first, num_tokens=count, start=start))
        queries = q_TND[first : first + count]
        expected.append(formula(queries, pages.k[row], pages.v[row], window))
        first += count
    out = paged_attention(q_TND, pages.pages, pages.tables, spans, scale=SCALE, window=window)
    torch.testing.assert_close(out, torch.cat(expected), rtol=0.0, atol=FLOAT32_ATTENTION)


@pytest.mark.parametrize("window", [None, 3, 20])
def test_tiles_make_no_difference(monkeypatch: pytest.MonkeyPatch, window: int | None):
    pages = Pages(2, 4, [70])
    q_TND = torch.randn(50, 4, 4, generator=torch.Generator().manual_seed(2))
    spans = [QuerySpan(table_row=0, first=0, num_tokens=50, start=20)]
    expected = formula(q_TND, pages.k[0], pages.v[0], window)
    for tile in (1, 7, 50, 256):
        monkeypatch.setattr(paged_attention_reference, "QUERY_TILE", tile)
        out = paged_attention(q_TND, pages.pages, pages.tables, spans, scale=SCALE, window=window)
        torch.testing.assert_close(out, expected, rtol=0.0, atol=FLOAT32_ATTENTION)
