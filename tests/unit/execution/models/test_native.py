"""Which native kernels are chosen, and what is said where there are none."""

import pytest
import torch

from okibi.core.errors import ConfigError
from okibi.core.kv_spec import KVDType
from okibi.execution.models.native import NativeUnavailable, choose_options

CPU = torch.device("cpu")
ALL = ("portable", "avx2", "avx512", "avx512_bf16", "amx")


@pytest.mark.parametrize(
    ("levels", "dtype", "level"),
    [
        (ALL, KVDType.BFLOAT16, "amx"),
        (ALL, KVDType.FLOAT32, "avx512"),
        (ALL[:4], KVDType.BFLOAT16, "avx512_bf16"),
        (ALL[:2], KVDType.BFLOAT16, "avx2"),
        (ALL[:2], KVDType.FLOAT32, "avx2"),
        (ALL[:1], KVDType.FLOAT32, "portable"),
    ],
)
def test_the_fastest_that_computes_in_the_type(levels: tuple[str, ...], dtype: KVDType, level: str):
    options = choose_options(levels, CPU, dtype)
    assert (options.level, options.dtype) == (level, dtype)
    assert options.num_threads == torch.get_num_threads()


def test_a_level_that_is_wanted():
    assert choose_options(ALL, CPU, KVDType.FLOAT32, "portable").level == "portable"


@pytest.mark.parametrize(
    ("levels", "device", "dtype", "wanted", "reason"),
    [
        ((), "cpu", KVDType.FLOAT32, None, "not built"),
        (ALL, "cuda", KVDType.BFLOAT16, None, "not on cuda"),
        (ALL, "cpu", KVDType.FLOAT16, None, "not float16"),
        (ALL, "cpu", KVDType.FLOAT32, "amx", "amx in float32"),
        (ALL[:2], "cpu", KVDType.BFLOAT16, "avx512", "avx512 in bfloat16"),
    ],
)
def test_why_there_are_none(
    levels: tuple[str, ...], device: str, dtype: KVDType, wanted: str | None, reason: str
):
    with pytest.raises(NativeUnavailable, match=reason) as caught:
        choose_options(levels, torch.device(device), dtype, wanted)
    assert isinstance(caught.value, ConfigError)
