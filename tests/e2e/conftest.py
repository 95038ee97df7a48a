"""Checkpoints and servers shared by the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from tests.support.serve_process import ServeProcess, serving
from tests.support.tiny_checkpoint import save_tiny_checkpoint


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    """A folder to serve, and the same model in transformers."""
    folder = tmp_path_factory.mktemp("tiny-llama")
    return folder, save_tiny_checkpoint(folder)


@pytest.fixture(scope="session")
def tiny_server(tiny_model: tuple[Path, PreTrainedModel]) -> Iterator[ServeProcess]:
    """One server for the tests that leave it as they found it."""
    # Compared token by token with transformers in float32, whatever this machine prefers.
    flags = (
        "--kv-cache-memory-bytes", "64MiB", "--served-model-name", "tiny", "--dtype", "float32",
    )  # fmt: skip
    with serving(tiny_model[0], *flags) as server:
        yield server
