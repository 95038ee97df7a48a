"""The arena: one packed tensor of pages, the views layers have of it, and copies of pages.

    arena  uint8[num_pages, page_size_bytes]

    page   | layer 0: K heads, V heads | layer 1 | ... | pad |
             ^ offset_bytes of its slice

A layer's view keeps the arena's memory: fixed offset, page stride. Who owns which page is decided
elsewhere; this module never allocates or frees a page.
"""

from collections.abc import Sequence

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from okibi.core.errors import ConfigError
from okibi.core.kv_layout import GroupLayout, KVCacheLayout, LayerSlice
from okibi.core.kv_spec import FullAttentionSpec
from okibi.core.plan import PageCopy
from okibi.execution.dtypes import TORCH_DTYPES
from okibi.execution.kv_store.host_memory import zeroed_bytes


class PageArena:
    """All pages of one device."""

    def __init__(self, layout: KVCacheLayout, device: torch.device) -> None:
        """Allocate the arena.

        Raises:
            ConfigError: the device has not enough free memory, or a block takes several pages.
        """
        for group in layout.groups:
            if group.pages_per_block != 1:
                raise ConfigError(
                    f"the layout gives a block of group {group.group_id} {group.pages_per_block} "
                    "pages; this executor keeps a block in one page"
                )
        self.layout = layout
        num_bytes = layout.num_pages * layout.page_size_bytes
        free_bytes = free_memory_bytes(device)
        if num_bytes > free_bytes:
            raise ConfigError(
                f"the KV pool needs {num_bytes} bytes and {device} has {free_bytes} free: "
                "lower --kv-cache-memory-bytes"
            )
        shape = (layout.num_pages, layout.page_size_bytes)
        try:
            self._bytes_PB = _zeros(shape, device)
        except (RuntimeError, MemoryError) as error:
            raise ConfigError(
                f"{device} cannot give {num_bytes} bytes for the KV pool: "
                "lower --kv-cache-memory-bytes"
            ) from error

    def layer_view(self, group: GroupLayout, part: LayerSlice) -> torch.Tensor:
        """pages_P2KBD: pages, (key, value), KV heads, slots of a block, head_dim.

        Raises:
            ConfigError: the layer keeps something else than keys and values.
        """
        spec = part.spec
        if not isinstance(spec, FullAttentionSpec):
            raise ConfigError(f"this executor cannot keep the state of a {type(spec).__name__}")
        itemsize = spec.dtype.num_bytes
        sizes = (2, spec.num_kv_heads, group.block_tokens, spec.head_dim)
        strides = _contiguous_strides(sizes)
        return self._bytes_PB.view(TORCH_DTYPES[spec.dtype]).as_strided(
            (self.layout.num_pages, *sizes),
            (self.layout.page_size_bytes // itemsize, *strides),
            part.offset_bytes // itemsize,
        )

    def as_numpy(self) -> NDArray[np.uint8]:
        """The whole arena [pages, page bytes], where it is in the memory of the CPU."""
        return self._bytes_PB.numpy()

    def copy_pages(self, copies: Sequence[PageCopy]) -> None:
        """Copy whole pages, each as if after the one before it."""
        if not copies:
            return
        targets = [copy.target for copy in copies]
        sources = [copy.source for copy in copies]
        if not set(sources).isdisjoint(targets):
            for source, target in zip(sources, targets, strict=True):
                self._bytes_PB[target] = self._bytes_PB[source]
            return
        device = self._bytes_PB.device
        self._bytes_PB[torch.tensor(targets, device=device)] = self._bytes_PB[
            torch.tensor(sources, device=device)
        ]


def _zeros(shape: tuple[int, int], device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return zeroed_bytes(shape[0] * shape[1]).view(shape)
    return torch.zeros(shape, dtype=torch.uint8, device=device)


def free_memory_bytes(device: torch.device) -> int:
    """Bytes that can be allocated on the device now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def _contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)
