"""Rotary position embedding of queries and keys."""

from okibi.execution.kernels.rope.reference import rope

__all__ = ["rope"]
