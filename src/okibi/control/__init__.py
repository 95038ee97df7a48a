"""The control plane: pure decisions. No I/O, no clock, no torch."""
