"""Attention over keys and values that lie in pages."""

from okibi.execution.kernels.paged_attention.reference import paged_attention
from okibi.execution.kernels.paged_attention.span import QuerySpan

__all__ = ["QuerySpan", "paged_attention"]
