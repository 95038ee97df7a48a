"""Writes new keys and values into pages."""

from okibi.execution.kernels.kv_write.reference import kv_write

__all__ = ["kv_write"]
