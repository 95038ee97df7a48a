"""Names of devices and element types, and the errors for wrong ones."""

import pytest
import torch

from okibi.core.errors import ConfigError
from okibi.core.kv_spec import KVDType
from okibi.execution.dtypes import TORCH_DTYPES, resolve_device, resolve_dtype

CPU = torch.device("cpu")


def test_element_types_have_the_size_the_layout_counts_with():
    for name, dtype in TORCH_DTYPES.items():
        assert dtype.itemsize == name.num_bytes
        assert resolve_dtype(name.value, CPU) is name


def test_auto_is_bfloat16_only_where_the_hardware_multiplies_it(monkeypatch):
    for supported, expected in ((True, KVDType.BFLOAT16), (False, KVDType.FLOAT32)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda value=supported: value)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        assert resolve_dtype("auto", CPU) is expected


@pytest.mark.parametrize("name", ["float8", "int8", ""])
def test_an_unknown_type_lists_the_choices(name: str):
    with pytest.raises(ConfigError, match="auto, float32, bfloat16, float16"):
        resolve_dtype(name, CPU)


@pytest.mark.parametrize("name", ["gpu", "meta", "", "cpu:x"])
def test_an_unknown_device_is_refused(name: str):
    with pytest.raises(ConfigError, match="--device"):
        resolve_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_cuda_without_a_gpu_says_so():
    with pytest.raises(ConfigError, match="no CUDA device"):
        resolve_device("cuda")
