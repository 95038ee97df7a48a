"""A small random model in memory, for tests that need a real executor but no checkpoint."""

import torch

from okibi.core.arch.dense import DenseArch
from okibi.core.arch.rope import RopeSpec
from okibi.core.clock import WallClock
from okibi.core.kv_spec import KVDType
from okibi.execution.executors.local import LocalExecutor
from okibi.execution.models.dense import DENSE
from okibi.execution.models.dense.model import DenseModel
from okibi.execution.models.dense.weights import destinations
from okibi.execution.models.loader import LoadedModel
from okibi.execution.models.native import NativeModel, choose_options, installed_levels
from tests.support.builders import MAX_TOKEN_ID, make_specs
from tests.support.memory_checkpoint import MemoryCheckpoint

CPU = torch.device("cpu")


def make_arch(num_layers: int = 1) -> DenseArch:
    """The architecture that caches what `builders.make_layout` has room for."""
    spec = make_specs()[0]
    return DenseArch(
        family="llama",
        hidden_size=16,
        num_heads=2,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        intermediate_size=24,
        vocab_size=MAX_TOKEN_ID,
        rms_norm_eps=1e-5,
        rope=RopeSpec(theta=100.0),
        layer_windows=(None,) * num_layers,
        max_position=1024,
        tie_word_embeddings=False,
    )


def make_model(
    arch: DenseArch | None = None, *, seed: int = 0, kernels: str = "reference"
) -> LoadedModel:
    """A float32 model on `reference` or on an instruction set of the native kernels."""
    arch = arch or make_arch()
    module = _make_module(arch, seed)
    return LoadedModel(
        arch=arch,
        module=module if kernels == "reference" else _make_native(module, arch, kernels),
        kernels=kernels,
        device=CPU,
        dtype=KVDType.FLOAT32,
        fingerprint=f"random-{seed}",
        eos_token_ids=(),
    )


def make_local_executor(
    arch: DenseArch | None = None, *, kernels: str = "reference"
) -> LocalExecutor:
    """An executor that `allocate` has not been called on."""
    return LocalExecutor(make_model(arch, kernels=kernels), WallClock())


def _make_module(arch: DenseArch, seed: int) -> DenseModel:
    module = DenseModel(arch, CPU).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        noise = torch.randn(weight.shape, generator=generator)
        weight.data.copy_(1.0 + 0.1 * noise if weight.dim() == 1 else noise)
    return module.requires_grad_(requires_grad=False)


def _make_native(module: DenseModel, arch: DenseArch, level: str) -> NativeModel:
    assert DENSE.load_native is not None
    options = choose_options(installed_levels(), CPU, KVDType.FLOAT32, level)
    return DENSE.load_native(arch, MemoryCheckpoint(destinations(module, arch)), options)
