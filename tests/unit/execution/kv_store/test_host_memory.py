"""Memory for an arena: zeroed, writable, as large as asked for, and kept by its tensor."""

import gc

import pytest
import torch

from okibi.execution.kv_store.host_memory import zeroed_bytes


@pytest.mark.parametrize("num_bytes", [1, 4096, 5_000_001])
def test_bytes_are_zero_and_stay(num_bytes: int):
    memory = zeroed_bytes(num_bytes)
    assert memory.shape == (num_bytes,)
    assert memory.dtype == torch.uint8
    assert not memory.any()
    view = memory[num_bytes // 2 :]
    del memory
    gc.collect()
    view.fill_(7)
    assert view.sum().item() == 7 * (num_bytes - num_bytes // 2)


@pytest.mark.parametrize("num_bytes", [2**62, 2**80])
def test_too_much_is_refused(num_bytes: int):
    with pytest.raises(MemoryError):
        zeroed_bytes(num_bytes)
