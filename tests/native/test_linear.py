"""Products with packed weights equal numpy's with the same weights dequantised.

Every level the machine has, every stored type, odd sizes, and both sides of the number of rows
where weights are unpacked first.
"""

from typing import Any

import gguf
import numpy as np
import pytest

from tests.native.levels import LEVELS, NARROW, Array, native, rounded, seen_by, to_bf16

SOURCES = ("F32", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
ROWS = (1, 2, 3, 4, 5, 16, 17, 33, 67)
SHAPES = ((16, 256), (33, 512), (80, 768), (1, 256))


def stored(
    source: str, num_outputs: int, num_inputs: int, rng: np.random.Generator
) -> tuple[Any, Array]:
    """Rows as a checkpoint stores them, and the weights they stand for."""
    weights = rng.standard_normal((num_outputs, num_inputs)).astype(np.float32)
    if source == "F32":
        return weights.view(np.uint8), weights.astype(np.float64)
    if source == "BF16":
        return to_bf16(weights).view(np.uint8), rounded(weights)
    kind = gguf.GGMLQuantizationType[source]
    if source in ("Q4_K", "Q6_K"):
        rows = _random_super_blocks(source, num_outputs, num_inputs, rng)
    else:
        rows = gguf.quants.quantize(weights, kind)
    return rows, gguf.quants.dequantize(rows, kind).astype(np.float64)


def _random_super_blocks(
    source: str, num_outputs: int, num_inputs: int, rng: np.random.Generator
) -> np.ndarray:
    """Random codes between scales of an ordinary size."""
    size, halves = {"Q4_K": (144, (0, 2)), "Q6_K": (210, (208,))}[source]
    blocks = rng.integers(0, 256, (num_outputs, num_inputs // 256, size), np.uint8)
    for at in halves:
        scales = rng.uniform(0.001, 0.01, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(num_outputs, -1)


def packed(source: str, rows: np.ndarray, num_inputs: int) -> Any:
    matrix = native.PackedMatrix(native.WeightMemory(), source, len(rows), num_inputs)
    matrix.write(np.ascontiguousarray(rows), np.arange(len(rows), dtype=np.int32))
    return matrix


def as_multiplied(level: str, source: str, weights: Array, num_rows: int) -> Array:
    """The weights that a level multiplies: rounded where it makes bfloat16 of them."""
    rounds = level in NARROW and (source == "F32" or num_rows > 4)
    return rounded(weights) if rounds else weights


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("level", LEVELS)
def test_products_equal_those_of_dequantised_weights(level: str, source: str):
    rng = np.random.default_rng(1)
    for num_outputs, num_inputs in SHAPES:
        rows, weights = stored(source, num_outputs, num_inputs, rng)
        matrix = packed(source, rows, num_inputs)
        for num_rows in ROWS:
            x = rng.standard_normal((num_rows, num_inputs)).astype(np.float32)
            used = as_multiplied(level, source, weights, num_rows)
            expected = seen_by(level, x) @ used.T
            size = np.abs(seen_by(level, x)) @ np.abs(used).T
            # A sum of products in float; a code times its scale may round to the other bfloat16.
            bound = size * (3e-4 if used is not weights else 3e-6) + 1e-6
            out = np.full(expected.shape, 7.0, np.float32)
            native.kernel_linear(level, matrix, x, "store", out)
            assert (np.abs(out - expected) <= bound).all()
            native.kernel_linear(level, matrix, x, "add", out)
            assert (np.abs(out - 2 * expected) <= 2.1 * bound).all()


@pytest.mark.parametrize("level", LEVELS)
def test_inputs_need_not_fill_a_block(level: str):
    rng = np.random.default_rng(2)
    for num_inputs in (1, 31, 33, 70):
        rows, weights = stored("BF16", 40, num_inputs, rng)
        matrix = packed("BF16", rows, num_inputs)
        for num_rows in (1, 9):
            x = rng.standard_normal((num_rows, num_inputs)).astype(np.float32)
            out = np.zeros((num_rows, 40), np.float32)
            native.kernel_linear(level, matrix, x, "store", out)
            np.testing.assert_allclose(out, seen_by(level, x) @ weights.T, atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("num_rows", [1, 4, 6, 40])
def test_a_gated_product(level: str, num_rows: int):
    rng = np.random.default_rng(3)
    inner, num_inputs = 48, 96
    rows, weights = stored("BF16", 2 * inner, num_inputs, rng)
    x = rng.standard_normal((num_rows, num_inputs)).astype(np.float32)
    out = np.zeros((num_rows, inner), np.float32)
    native.kernel_linear(level, packed("BF16", rows, num_inputs), x, "swiglu", out)
    panels = (seen_by(level, x) @ weights.T).reshape(num_rows, -1, 2, 16)
    gate, up = panels[:, :, 0].reshape(num_rows, -1), panels[:, :, 1].reshape(num_rows, -1)
    relative = 2.0**-8 if level in NARROW else 1e-5
    np.testing.assert_allclose(out, gate / (1 + np.exp(-gate)) * up, rtol=relative, atol=2e-4)


@pytest.mark.parametrize("level", LEVELS)
def test_rows_that_are_no_number_spoil_no_others(level: str):
    rng = np.random.default_rng(4)
    rows, weights = stored("Q4_1", 32, 64, rng)
    x = rng.standard_normal((20, 64)).astype(np.float32)
    x[7] = np.nan
    out = np.zeros((20, 32), np.float32)
    native.kernel_linear(level, packed("Q4_1", rows, 64), x, "store", out)
    assert np.isnan(out[7]).all()
    kept = np.arange(20) != 7
    used = as_multiplied(level, "Q4_1", weights, 20)
    np.testing.assert_allclose(out[kept], seen_by(level, x[kept]) @ used.T, atol=5e-3)


@pytest.mark.parametrize("level", LEVELS)
def test_rms_norm(level: str):
    rng = np.random.default_rng(5)
    for width in (1, 15, 64, 577):
        x = rng.standard_normal((3, width)).astype(np.float32) * 3
        weight = rng.standard_normal(width).astype(np.float32)
        out = np.zeros_like(x)
        native.kernel_rms_norm(level, x, weight, 1e-5, out)
        wide = x.astype(np.float64)
        expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * weight
        np.testing.assert_allclose(out, expected, rtol=2.0**-8 if level in NARROW else 1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_the_choice_of_a_token(level: str):
    rng = np.random.default_rng(6)
    for count in (1, 15, 16, 17, 1000, 49152):
        logits = rng.standard_normal(count).astype(np.float32)
        assert native.kernel_choose(level, logits) == logits.argmax()
        logits[[count // 3, count - 1]] = 9.0
        assert native.kernel_choose(level, logits) == count // 3
        for broken in (np.nan, np.inf, -np.inf):
            logits[count // 2] = broken
            assert native.kernel_choose(level, logits) == -1
