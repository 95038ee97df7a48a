"""A `gguf.GGUFReader` for files that may be broken, and that skips the tokenizer.

The stock reader trusts the lengths in a file, and walks every tokenizer string in Python. This
one refuses to look past the end of the file and steps over arrays of strings.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType

from okibi.core.errors import ModelError

_LENGTH = struct.Struct("<Q")


class GGUFHeaderReader(GGUFReader):
    """Fields and tensors as in the base class, arrays of strings left empty."""

    def _get(
        self, offset: int, dtype: Any, count: Any = 1, override_order: Any = None
    ) -> np.ndarray:
        end = int(offset) + np.dtype(dtype).itemsize * int(count)
        if not 0 <= int(offset) <= end <= len(self.data):
            raise ValueError("the file is cut short")
        return super()._get(offset, dtype, count, override_order)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, list, list]:
        if GGUFValueType(raw_type) is not GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        item_type = GGUFValueType(int(self._get(orig_offs, np.uint32)[0]))
        count = int(self._get(orig_offs + 4, np.uint64)[0])
        start = orig_offs + 12
        types = [GGUFValueType.ARRAY, item_type]
        if item_type is GGUFValueType.STRING:
            return self._end_of_strings(start, count) - orig_offs, [], [], types
        if item_type not in self.gguf_scalar_to_np:
            return super()._get_field_parts(orig_offs, raw_type)
        values = self._get(start, self.gguf_scalar_to_np[item_type], count)
        return 12 + values.nbytes, [values], [0], types

    def _end_of_strings(self, start: int, count: int) -> int:
        view = self.data.data
        for _ in range(count):
            try:
                (length,) = _LENGTH.unpack_from(view, start)
            except struct.error as error:
                raise ValueError("the file is cut short") from error
            start += _LENGTH.size + length
        return start


def read_gguf_header(path: Path) -> GGUFHeaderReader:
    """Read the metadata and tensor table of a GGUF file.

    Raises:
        ModelError: it is no GGUF file, or cut short, or broken.
    """
    try:
        return GGUFHeaderReader(path)
    except (ValueError, KeyError, IndexError, OverflowError, MemoryError, OSError) as error:
        reason = error.args[0] if error.args else type(error).__name__
        raise ModelError(f"{path} is not a readable GGUF file: {reason}") from error
