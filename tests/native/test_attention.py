"""Paged attention equals numpy's softmax over the positions that each token sees.

Every level and KV type, over pages in random order: windows, sinks, odd head and block sizes,
sequences that start anywhere, and keys divided among threads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.native.levels import LEVELS, NARROW, Array, from_bf16, native, rounded, seen_by, to_bf16

DTYPES = ("float32", "bfloat16")
OFFSET = 64


@dataclass(frozen=True, kw_only=True)
class Case:
    """Spans are (number of tokens, position of the first)."""

    spans: tuple[tuple[int, int], ...]
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 64
    block_tokens: int = 16
    window: int = 0
    has_sinks: bool = False
    num_threads: int = 1


CASES = {
    "decode": Case(spans=((1, 0), (1, 15), (1, 16), (1, 777))),
    "prefill": Case(spans=((200, 0), (33, 100), (1, 5))),
    "one token of a long prompt": Case(spans=((1, 4095),), num_threads=2),
    "chunk of a long prompt": Case(spans=((130, 1900),), num_heads=9, num_kv_heads=3),
    "split among threads": Case(spans=((3, 3000),), num_threads=3),
    "window": Case(spans=((300, 0), (1, 500), (40, 290)), window=37),
    "window of one": Case(spans=((20, 3),), window=1),
    "window, split": Case(spans=((2, 5000),), window=2000, num_threads=3),
    "sinks": Case(spans=((70, 0), (1, 300)), has_sinks=True),
    "sinks, window, split": Case(spans=((1, 3000),), has_sinks=True, window=1500, num_threads=2),
    "heads of 128": Case(spans=((90, 10), (1, 200)), head_dim=128, num_heads=4),
    "heads of 40": Case(spans=((90, 10), (1, 200)), head_dim=40),
    "heads of 8, blocks of 5": Case(spans=((50, 3), (1, 77)), head_dim=8, block_tokens=5),
    "blocks of 1": Case(spans=((40, 9), (1, 99)), block_tokens=1),
    "blocks of 100": Case(spans=((150, 60), (1, 399)), block_tokens=100),
    "many heads a KV head": Case(spans=((20, 30), (1, 60)), num_heads=24, num_kv_heads=1),
    "a KV head each": Case(spans=((60, 70), (1, 60)), num_heads=3, num_kv_heads=3),
}


class Pages:
    """Keys and values of a case, in pages that lie in random order between unread ones."""

    def __init__(self, case: Case, dtype: str, rng: np.random.Generator) -> None:
        ends = [start + count for count, start in case.spans]
        blocks = [-(-end // case.block_tokens) for end in ends]
        shape = (2, case.num_kv_heads, case.block_tokens, case.head_dim)
        pages = rng.permutation(sum(blocks) + 3).astype(np.int32)
        values = rng.standard_normal((len(pages), *shape)).astype(np.float32)
        raw = values if dtype == "float32" else to_bf16(values)
        self.pages = values if dtype == "float32" else from_bf16(to_bf16(values))
        raw = raw.reshape(len(pages), -1).view(np.uint8)
        self.arena = np.zeros((len(pages), raw.shape[1] + OFFSET + 32), np.uint8)
        self.arena[:, OFFSET : OFFSET + raw.shape[1]] = raw
        self.table = np.zeros((len(ends), max(blocks)), np.int32)
        for row, (count, first) in enumerate(zip(blocks, np.cumsum(blocks), strict=True)):
            self.table[row, :count] = pages[first - count : first]

    def keys_and_values(self, row: int, num_tokens: int) -> Array:
        """[2, KV heads, num_tokens, head_dim]."""
        whole = np.concatenate(list(self.pages[self.table[row]]), axis=2)
        return whole[:, :, :num_tokens].astype(np.float64)


def reference(case: Case, pages: Pages, q: Array, sinks: np.ndarray | None) -> tuple[Array, Array]:
    """Outputs [tokens, heads * head_dim] and log-sum-exp [tokens, heads]."""
    group, first = case.num_heads // case.num_kv_heads, 0
    out, lse = np.zeros_like(q), np.zeros((len(q), case.num_heads))
    for row, (count, start) in enumerate(case.spans):
        keys, values = pages.keys_and_values(row, start + count).repeat(group, axis=1)
        own = q[first : first + count].reshape(count, case.num_heads, -1).swapaxes(0, 1)
        scores = own @ keys.swapaxes(1, 2) * case.head_dim**-0.5
        position = np.arange(start, start + count)[:, None]
        seen = np.arange(start + count) <= position
        if case.window:
            seen &= np.arange(start + count) > position - case.window
        scores = np.where(seen, scores, -np.inf)
        highest = scores.max(axis=-1, keepdims=True)
        powers = np.exp(scores - highest)
        total = powers.sum(axis=-1, keepdims=True)
        if sinks is not None:
            total += np.exp(sinks[:, None, None] - highest)
        out[first : first + count] = (powers @ values / total).swapaxes(0, 1).reshape(count, -1)
        lse[first : first + count] = (highest + np.log(total))[..., 0].T
        first += count
    return out, lse


def attend(
    level: str, case: Case, pages: Pages, dtype: str, q: np.ndarray, sinks: np.ndarray | None
) -> tuple[Any, Any]:
    spans, first = [], 0
    for row, (count, start) in enumerate(case.spans):
        spans.append((row, first, count, start))
        first += count
    out = np.zeros_like(q)
    lse = np.zeros((len(q), case.num_heads), np.float32)
    native.kernel_paged_attention(
        level=level, q=q, arena=pages.arena, offset=OFFSET, dtype=dtype,
        block_tokens=case.block_tokens, num_kv_heads=case.num_kv_heads, head_dim=case.head_dim,
        block_table=pages.table, spans=np.array(spans, np.int64), scale=case.head_dim**-0.5,
        window=case.window, sinks=sinks, num_threads=case.num_threads, out=out, lse=lse,
    )  # fmt: skip
    return out, lse


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
def test_attention_equals_softmax(level: str, dtype: str, name: str):
    case, rng = CASES[name], np.random.default_rng(6)
    pages = Pages(case, dtype, rng)
    num_tokens = sum(count for count, _ in case.spans)
    q = rng.standard_normal((num_tokens, case.num_heads * case.head_dim)).astype(np.float32) * 2
    sinks = rng.standard_normal(case.num_heads).astype(np.float32) if case.has_sinks else None
    expected, expected_lse = reference(case, pages, seen_by(level, q), sinks)
    out, lse = attend(level, case, pages, dtype, q, sinks)
    # Outputs and shares are bfloat16 on narrow levels: 2^-9 of values of about 1, at most 4.
    tolerance = 2e-2 if level in NARROW else 1e-5
    np.testing.assert_allclose(out, expected, atol=tolerance)
    np.testing.assert_allclose(lse, expected_lse, atol=5e-4 if level in NARROW else 1e-5)
    assert np.sqrt(((out - expected) ** 2).mean()) < tolerance / 8


@pytest.mark.parametrize("level", LEVELS)
def test_scores_that_grow_along_the_keys(level: str):
    """Each block of keys outweighs all before it, so that what is summed must be rescaled."""
    case = Case(spans=((40, 600), (1, 600)), num_heads=2, num_kv_heads=1)
    rng = np.random.default_rng(7)
    pages = Pages(case, "bfloat16", rng)
    for row in range(len(case.spans)):
        for block, page in enumerate(pages.table[row]):
            pages.pages[page, 0] = rounded(pages.pages[page, 0] * 0.1 + block * 0.25)
    raw = to_bf16(pages.pages.reshape(len(pages.arena), -1)).view(np.uint8)
    pages.arena[:, OFFSET : OFFSET + raw.shape[1]] = raw
    q = np.abs(rng.standard_normal((41, 128))).astype(np.float32)
    expected, expected_lse = reference(case, pages, seen_by(level, q), None)
    out, lse = attend(level, case, pages, "bfloat16", q, None)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(out, expected, atol=2e-2 if level in NARROW else 1e-4)
