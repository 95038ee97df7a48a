"""Truncation of wide rows against sorting them in plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from okibi.execution.kernels.sampling import cut_top_k_top_p, draw
from okibi.execution.kernels.sampling.reference import NUM_CANDIDATES

VOCAB_SIZE = 3 * NUM_CANDIDATES


def kept(logits_RV: torch.Tensor, top_k: list[int], top_p: list[float]) -> list[set[int]]:
    cut_RV = cut_top_k_top_p(logits_RV, torch.tensor(top_k)[:, None], torch.tensor(top_p)[:, None])
    kept_RV = cut_RV > -torch.inf
    assert cut_RV[kept_RV].equal(logits_RV[kept_RV])
    return [set(row.nonzero()[:, 0].tolist()) for row in kept_RV]


def plain(logits: list[float], top_k: int, top_p: float) -> set[int]:
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    weights = [math.exp(logits[token] - logits[ranked[0]]) for token in ranked]
    if top_p >= 1.0:
        return set(ranked)
    found, reached = set(), 0.0
    for token, weight in zip(ranked, weights, strict=True):
        found.add(token)
        reached += weight
        if reached >= top_p * math.fsum(weights) * (1 - 1e-12):
            break
    return found


@given(
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.1, 1.0, 6.0]),
    levels=st.sampled_from([3, 40, 10**6]),
    rows=st.lists(
        st.tuples(
            st.sampled_from([1, 7, NUM_CANDIDATES - 1, NUM_CANDIDATES, 2000, VOCAB_SIZE]),
            st.sampled_from([0.0503, 0.5003, 0.9003, 0.9993, 1.0]),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_equals_sorting(seed, spread, levels, rows):
    """Few levels make many ties; a small spread makes a nucleus wider than the candidates."""
    generator = torch.Generator().manual_seed(seed)
    logits_RV = spread * torch.randn(len(rows), VOCAB_SIZE, generator=generator)
    logits_RV = (logits_RV * levels / 4).round() * 4 / levels
    top_k, top_p = [k for k, _ in rows], [p for _, p in rows]
    expected = [
        plain(logits.tolist(), k, p) for logits, k, p in zip(logits_RV, top_k, top_p, strict=True)
    ]
    assert kept(logits_RV, top_k, top_p) == expected


def test_a_nucleus_is_of_the_top_k_even_beyond_the_candidates():
    (found,) = kept(torch.zeros(1, VOCAB_SIZE), [2 * NUM_CANDIDATES], [0.25])
    assert found == set(range(NUM_CANDIDATES // 2))


def test_both_ways_are_taken():
    flat, peaked = torch.zeros(1, VOCAB_SIZE), torch.zeros(1, VOCAB_SIZE)
    peaked[0, 5] = 30.0
    (wide,), (narrow,) = kept(flat, [VOCAB_SIZE], [0.9]), kept(peaked, [VOCAB_SIZE], [0.9])
    assert len(wide) > NUM_CANDIDATES
    assert narrow == {5}


@pytest.mark.parametrize("uniform", [0.0, 0.2499, 0.25, 0.9999, 1 - 2**-52])
def test_a_draw_inverts_the_distribution_and_takes_no_impossible_token(uniform: float):
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]])
    (token,) = draw(probabilities.log(), torch.tensor([[uniform]], dtype=torch.float64)).tolist()
    assert token == (1 if uniform < 0.25 else 3 if uniform < 0.75 else 4)
