"""Measures okibi beside other engines on one machine; see benchmarks/README.md."""
