"""What only the native kernels do: bfloat16 by instructions of their own, and attention in parts.

Everything that they share with the reference is tested with it, in `test_families.py` and
`test_gguf.py`.
"""

from pathlib import Path
from random import Random

import pytest
import torch
from transformers import LlamaConfig, MistralConfig, PreTrainedConfig

from okibi.execution.models.loader import LoadedModel
from tests.numerics.helpers import BLOCK_TOKENS, PagedRunner, transformers_logits
from tests.numerics.tolerances import BFLOAT16_ERROR_RATIO, FLOAT32_LOGITS
from tests.support.native_kernels import FLOAT32_LEVELS, LEVELS, level_params, load_on
from tests.support.tiny_models import (
    CONFIGS,
    SHAPE,
    VOCAB_SIZE,
    make_transformers_model,
    save_tiny_model,
)

IDS = Random(7).choices(range(VOCAB_SIZE), k=41)
STEPS = ((0, 5), (5, 6), (6, 23), (23, 25), (25, 41))
LONG_IDS = Random(9).choices(range(VOCAB_SIZE), k=3001)
LONG_STEPS = ((0, 1400), (1400, 1403), (1403, 3000), (3000, 3001))
LONG_CONFIGS: dict[str, PreTrainedConfig] = {
    "full": LlamaConfig(**SHAPE),
    "window": MistralConfig(**SHAPE, sliding_window=1500),
}


def logits_of(
    model: LoadedModel, ids: list[int], steps: tuple[tuple[int, int], ...]
) -> torch.Tensor:
    """logits_RV after each step."""
    runner = PagedRunner(model, num_pages=len(ids) // BLOCK_TOKENS + 2)
    one = runner.start("a", ids[: steps[0][1]])
    rows = []
    for start, stop in steps:
        one.ids = ids[:stop]
        rows.append(runner.logits((one, start, stop)))
    return torch.cat(rows)


def ends(steps: tuple[tuple[int, int], ...]) -> list[int]:
    return [stop - 1 for _, stop in steps]


def rms(errors: torch.Tensor) -> float:
    return errors.square().mean().sqrt().item()


@pytest.mark.parametrize("level", level_params(LEVELS))
@pytest.mark.parametrize("name", CONFIGS)
def test_bfloat16_is_as_close_to_float32_as_torchs(name: str, level: str, tmp_path: Path):
    theirs = save_tiny_model(name, tmp_path)
    exact_RV = transformers_logits(theirs, IDS)[ends(STEPS)]
    by_torch, by_us = (
        rms(logits_of(load_on(tmp_path, kernels, dtype="bfloat16"), IDS, STEPS) - exact_RV)
        for kernels in ("reference", level)
    )
    assert by_us < BFLOAT16_ERROR_RATIO * by_torch


@pytest.mark.parametrize("level", level_params(FLOAT32_LEVELS))
@pytest.mark.parametrize("kind", LONG_CONFIGS)
def test_a_context_of_many_pages(kind: str, level: str, tmp_path: Path):
    """Long enough that the attention of few tokens is computed in parts and joined."""
    theirs = make_transformers_model(LONG_CONFIGS[kind])
    theirs.save_pretrained(tmp_path)
    exact_RV = transformers_logits(theirs, LONG_IDS)[ends(LONG_STEPS)]
    ours_RV = logits_of(load_on(tmp_path, level), LONG_IDS, LONG_STEPS)
    torch.testing.assert_close(ours_RV, exact_RV, rtol=0.0, atol=FLOAT32_LOGITS)
