"""The reference ops on a GPU: the same logits and the same sampled tokens as on the CPU."""

from pathlib import Path
from random import Random

import pytest
import torch

from okibi.core.clock import WallClock
from okibi.core.ids import StepId
from okibi.core.kernels import KernelChoice
from okibi.core.plan import BatchPlan, TokenRef
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.execution.executors.local import LocalExecutor
from okibi.execution.models.loader import LoadedModel, load_model
from tests.numerics.helpers import PagedRunner, layout_for
from tests.numerics.tolerances import FLOAT32_CUDA_LOGITS
from tests.support.builders import admit, chunk, make_request, pages, plan
from tests.support.tiny_models import CONFIGS, VOCAB_SIZE, save_tiny_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

IDS = Random(3).choices(range(VOCAB_SIZE), k=37)


def load_reference(path: Path, device: str) -> LoadedModel:
    return load_model(path, device=device, dtype="float32", kernels=KernelChoice.REFERENCE)


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_the_cpus(name: str, tmp_path: Path):
    save_tiny_model(name, tmp_path)
    logits = []
    for device in ("cpu", "cuda"):
        runner = PagedRunner(load_reference(tmp_path, device))
        one = runner.start("a", IDS[:20])
        rows = [runner.logits((one, 0, 20))]
        one.ids = list(IDS)
        rows.append(runner.logits((one, 20, 37)))
        logits.append(torch.cat(rows).cpu())
    torch.testing.assert_close(logits[1], logits[0], rtol=0.0, atol=FLOAT32_CUDA_LOGITS)


def test_sampling_and_references_equal_the_cpus(tmp_path: Path):
    """Two steps in flight; every kind of sampling in one batch."""
    save_tiny_model("llama", tmp_path)
    kinds = (
        SamplingParams(max_tokens=9, temperature=0.0, logprobs=3),
        SamplingParams(max_tokens=9, temperature=0.8, seed=1, top_p=0.9, top_k=50),
        SamplingParams(max_tokens=9, temperature=1.0, seed=2, min_p=0.05),
        SamplingParams(max_tokens=9, temperature=0.0, presence_penalty=1.0, min_tokens=2),
        SamplingParams(max_tokens=9, temperature=0.0, logit_bias=((4, 2.0),)),
    )
    requests = [
        make_request(f"{index}", IDS[index:], sampling=kind) for index, kind in enumerate(kinds)
    ]
    results = []
    for device in ("cpu", "cuda"):
        model = load_reference(tmp_path, device)
        executor = LocalExecutor(model, WallClock())
        executor.allocate(layout_for(model))
        for step in plans(requests):
            executor.submit(step)
        results.append([[row.token_ids for row in executor.collect().rows] for _ in range(2)])
    assert results[0] == results[1]


def plans(requests: list[Request]) -> tuple[BatchPlan, BatchPlan]:
    """A prefill of all, then one token each by reference."""
    first = plan(
        0,
        admitted=tuple(
            admit(one, history=one.prompt.ids(0, len(one.prompt)), stop_ids=(5,))
            for one in requests
        ),
        table_updates=tuple(
            pages(one, *range(11 * index, 11 * index + 11)) for index, one in enumerate(requests)
        ),
        chunks=tuple(chunk(one, 0, len(one.prompt)) for one in requests),
    )
    ends = [len(one.prompt) for one in requests]
    second = plan(
        1,
        chunks=tuple(
            chunk(one, end, end + 1, tokens=b"", ref=TokenRef(step_id=StepId(0), row=row))
            for row, (one, end) in enumerate(zip(requests, ends, strict=True))
        ),
    )
    return first, second
