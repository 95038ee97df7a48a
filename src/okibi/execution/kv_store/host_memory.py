"""Zeroed memory of the host for what is read in many small pieces.

A block of one head is a few kilobytes and the next lies elsewhere, so with pages of 4 KiB nearly
every piece would miss the processor's table of addresses. Huge pages are asked for where the
system has them; memory is taken when it is first touched.
"""

import contextlib
import mmap

import torch


def zeroed_bytes(num_bytes: int) -> torch.Tensor:
    """uint8 [num_bytes], at least one.

    Raises:
        MemoryError: the system does not give so much.
    """
    try:
        memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(str(error)) from error
    # Without huge pages, or where the name is unknown, the memory is as good as any.
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)
