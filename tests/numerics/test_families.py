"""Logits of every family equal transformers' in float32, however the tokens were scheduled."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import PreTrainedModel

from okibi.core.arch.dense import DenseArch
from okibi.core.arch.rope import RopeSpec
from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.loader import LoadedModel
from tests.numerics.helpers import BLOCK_TOKENS, PagedRunner, transformers_logits
from tests.numerics.tolerances import FLOAT32_LOGITS
from tests.support.native_kernels import kernel_params, load_on, torch_module
from tests.support.tiny_models import CONFIGS, VOCAB_SIZE, WINDOW, save_tiny_model

NUM_TOKENS = 41
IDS = Random(7).choices(range(VOCAB_SIZE), k=NUM_TOKENS)
OTHER_IDS = Random(8).choices(range(VOCAB_SIZE), k=NUM_TOKENS)


class Family:
    """One tiny checkpoint, as transformers has it and as okibi loads it."""

    def __init__(self, name: str, kernels: str, folder: Path) -> None:
        self.name = name
        self.theirs: PreTrainedModel = save_tiny_model(name, folder)
        self.ours: LoadedModel = load_on(folder, kernels)

    def runner(self) -> PagedRunner:
        return PagedRunner(self.ours)

    def expected(self, ids: list[int]) -> torch.Tensor:
        return transformers_logits(self.theirs, ids)


@pytest.fixture(scope="module", params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=kernel_params())
def family(
    name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Family:
    return Family(name, request.param, tmp_path_factory.mktemp(name))


def assert_equal(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=FLOAT32_LOGITS)


def test_what_sets_a_family_apart_moves_its_logits(name: str, tmp_path: Path):
    """Without its bias, norm, window or scaling a model would fail every test below."""
    family = Family(name, "reference", tmp_path)
    arch = family.ours.arch
    assert isinstance(arch, DenseArch)
    plain = {"layer_windows": (None,) * arch.num_layers, "rope": RopeSpec(theta=arch.rope.theta)}
    if (arch.layer_windows, arch.rope) == tuple(plain.values()):
        assert family.name in {"llama", "qwen2", "qwen3", "mistral"}
        return
    assert NUM_TOKENS > 2 * WINDOW
    runner = family.runner()
    one = runner.start("a", IDS)
    runner.logits((one, 0, NUM_TOKENS))
    bare = DenseModel(replace(arch, **plain), family.ours.device)
    bare.load_state_dict(torch_module(family.ours).state_dict())
    stripped = PagedRunner(replace(family.ours, module=bare.requires_grad_(requires_grad=False)))
    logits_RV = stripped.logits((stripped.start("a", IDS), 0, NUM_TOKENS))
    assert (logits_RV[0] - family.expected(IDS)[-1]).abs().max() > 100 * FLOAT32_LOGITS


def test_a_prompt_in_one_step(family: Family):
    runner = family.runner()
    logits_RV = runner.logits((runner.start("a", IDS), 0, NUM_TOKENS))
    assert_equal(logits_RV[0], family.expected(IDS)[-1])


@pytest.mark.parametrize("sizes", [(7, 1, 13, 20), (16, 16, 9), (1, 40)])
def test_a_prompt_in_chunks(family: Family, sizes: tuple[int, ...]):
    assert sum(sizes) == NUM_TOKENS
    runner, expected_TV = family.runner(), family.expected(IDS)
    one, start = runner.start("a", IDS[: sizes[0]]), 0
    for size in sizes:
        stop = start + size
        one.ids = IDS[:stop]
        assert_equal(runner.logits((one, start, stop))[0], expected_TV[stop - 1])
        start = stop


def test_one_token_at_a_time(family: Family):
    runner, expected_TV = family.runner(), family.expected(IDS)
    one = runner.start("a", IDS[:5])
    assert_equal(runner.logits((one, 0, 5))[0], expected_TV[4])
    for position in range(5, NUM_TOKENS):
        one.ids.append(IDS[position])
        assert_equal(runner.logits((one, position, position + 1))[0], expected_TV[position])


def test_a_mixed_batch(family: Family):
    """A decoding sequence, the rest of a chunked prompt, a new one and an unfinished chunk."""
    runner = family.runner()
    a, b = runner.start("a", IDS[:20]), runner.start("b", OTHER_IDS[:31])
    c, d = runner.start("c", OTHER_IDS[5:14]), runner.start("d", IDS[3:33])
    runner.logits((a, 0, 20), (b, 0, 18))
    a.ids.append(IDS[20])
    logits_RV = runner.logits((a, 20, 21), (d, 0, 11), (b, 18, 31), (c, 0, 9))
    assert logits_RV.shape[0] == 3
    for row, one in zip(logits_RV, (a, b, c), strict=True):
        assert_equal(row, family.expected(one.ids)[-1])
    assert_equal(runner.logits((d, 11, 30))[0], family.expected(d.ids)[-1])


@pytest.mark.parametrize("num_shared", [20, 22])
def test_a_prefix_hit_resumes_and_leaves_the_donor_alone(family: Family, num_shared: int):
    """22 tokens end inside a page, which is copied before either sequence goes on."""
    runner = family.runner()
    donor = runner.start("donor", IDS[:24])
    runner.logits((donor, 0, 24))
    forked_ids = IDS[:num_shared] + OTHER_IDS[num_shared:30]
    forked, copies = runner.fork("forked", forked_ids, donor, num_shared)
    assert len(copies) == (1 if num_shared % BLOCK_TOKENS else 0)
    donor.ids.append(IDS[24])
    logits_RV = runner.logits((donor, 24, 25), (forked, num_shared, 30), copies=copies)
    assert_equal(logits_RV[0], family.expected(donor.ids)[-1])
    assert_equal(logits_RV[1], family.expected(forked_ids)[-1])
