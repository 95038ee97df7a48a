"""Greedy tokens of the default model equal transformers' on the same float32 weights.

40 prompts of up to 2,000 tokens go through the replica and the real executor, in mixed batches,
chunked, with shared prefixes and two steps in flight. transformers then reads each prompt with
okibi's tokens after it, without batch or cache: if its most likely token agrees at every position,
its own greedy generation is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from okibi.control.config import ReplicaConfig
from okibi.control.replica import Replica
from okibi.core.clock import WallClock
from okibi.core.kernels import KernelChoice
from okibi.execution.executors.local import LocalExecutor
from okibi.execution.models.loader import LoadedModel, load_model
from okibi.execution.models.native import installed_levels
from okibi.kvcache.layout_solver import solve_layout
from okibi.launch.model_pull import pull
from tests.numerics.tolerances import FLOAT32_NEAR_TIE
from tests.support.builders import make_request
from tests.support.lockstep import LockstepDriver
from tests.support.smollm2 import MAX_PROMPT_TOKENS, load_smollm2, make_prompts

NUM_PROMPTS = 40
SHORT_PROMPT_TOKENS = 300


@dataclass(frozen=True)
class SmolLM2:
    """The model on both sides, and the prompts."""

    ours: LoadedModel
    theirs: PreTrainedModel
    prompts: list[list[int]]


@pytest.fixture(scope="module")
def theirs() -> PreTrainedModel:
    return load_smollm2(pull("smollm2"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(KernelChoice.REFERENCE),
        pytest.param(
            KernelChoice.NATIVE,
            marks=pytest.mark.skipif(not installed_levels(), reason="there are no native kernels"),
        ),
    ],
)
def smollm2(request: pytest.FixtureRequest, theirs: PreTrainedModel) -> SmolLM2:
    path: Path = pull("smollm2")
    ours = load_model(path, dtype="float32", kernels=request.param)
    return SmolLM2(ours, theirs, make_prompts(path))


def make_driver(model: LoadedModel, *, max_inflight_steps: int) -> LockstepDriver:
    layout = solve_layout(
        model.arch.kv_specs(model.dtype), block_tokens=16, prefix_match_unit=4, num_pages=1024
    )
    config = ReplicaConfig(
        model_fingerprint=model.fingerprint,
        max_model_len=4096,
        max_num_seqs=12,
        max_num_batched_tokens=512,
        max_inflight_steps=max_inflight_steps,
        eos_token_ids=model.eos_token_ids,
    )
    executor = LocalExecutor(model, WallClock())
    executor.allocate(layout)
    replica = Replica(config, layout)
    return LockstepDriver(replica, executor, max_inflight_steps=max_inflight_steps)


def num_new_tokens(prompt: Sequence[int]) -> int:
    return 24 if len(prompt) <= SHORT_PROMPT_TOKENS else 8


def generate(
    driver: LockstepDriver, prompts: Sequence[Sequence[int]], name: str = "first"
) -> list[list[int]]:
    """All prompts at once; `name` sets their requests apart from earlier ones."""
    names = [f"{name}-{index}" for index in range(len(prompts))]
    for request_id, prompt in zip(names, prompts, strict=True):
        driver.submit(make_request(request_id, prompt, max_tokens=num_new_tokens(prompt)))
    driver.run()
    return [driver.tokens(request_id) for request_id in names]


def near_ties(theirs: PreTrainedModel, prompt: list[int], output: list[int]) -> list[float]:
    """By how much transformers prefers another token, where it does. Empty: all tokens agree."""
    with torch.no_grad():
        ids = torch.tensor([prompt + output[:-1]])
        logits_TV = theirs(ids, use_cache=False, logits_to_keep=len(output)).logits[0]
    best, chosen = logits_TV.max(dim=-1), torch.tensor(output)
    gaps = best.values - logits_TV.gather(-1, chosen[:, None])[:, 0]
    return gaps[best.indices != chosen].tolist()


@pytest.mark.timeout(600)
def test_greedy_tokens_equal_transformers(smollm2: SmolLM2):
    lengths = sorted(len(prompt) for prompt in smollm2.prompts)
    assert len(lengths) == NUM_PROMPTS
    assert lengths[0] == 1
    assert 0.95 * MAX_PROMPT_TOKENS < lengths[-1] <= MAX_PROMPT_TOKENS
    driver = make_driver(smollm2.ours, max_inflight_steps=2)
    outputs = generate(driver, smollm2.prompts)
    assert driver.replica.stats().counters.prefix_hit_tokens > 1000
    different = [
        gap
        for prompt, output in zip(smollm2.prompts, outputs, strict=True)
        for gap in near_ties(smollm2.theirs, prompt, output)
    ]
    assert all(gap < FLOAT32_NEAR_TIE for gap in different), different


@pytest.mark.timeout(300)
def test_alone_and_cold_equals_batched_and_cached(smollm2: SmolLM2):
    chosen = [smollm2.prompts[index] for index in (0, 5, 16, 22, 25, 31, 33)]
    together = make_driver(smollm2.ours, max_inflight_steps=2)
    batched, cached = generate(together, chosen), generate(together, chosen, "again")
    assert together.num_cached_tokens("again-6") == len(chosen[6]) // 4 * 4
    alone = [generate(make_driver(smollm2.ours, max_inflight_steps=1), [one])[0] for one in chosen]
    assert batched == cached == alone
