"""Execution plane: runs batch plans on real hardware. The only home of torch."""
