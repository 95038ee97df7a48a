"""Executors: the real implementations of `core.executor.Executor`."""
