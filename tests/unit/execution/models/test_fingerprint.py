"""A fingerprint tells models apart and nothing else."""

import json
from pathlib import Path

import pytest

from okibi.execution.models.checkpoint import open_checkpoint
from okibi.execution.models.fingerprint import EDGE_BYTES, NUM_PIECES, PIECE_BYTES, fingerprint
from tests.support.tiny_models import save_tiny_model


def of(folder: Path) -> str:
    return fingerprint(open_checkpoint(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny_model("llama", tmp_path / "model")
    return tmp_path / "model"


def test_the_same_model_elsewhere_has_the_same(folder: Path, tmp_path: Path):
    save_tiny_model("llama", tmp_path / "copy")
    assert of(folder) == of(tmp_path / "copy")


def test_other_weights_have_another(folder: Path, tmp_path: Path):
    save_tiny_model("llama", tmp_path / "other", seed=1)
    assert of(folder) != of(tmp_path / "other")


def test_another_config_has_another(folder: Path):
    before = of(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rms_norm_eps": 1e-3}))
    assert of(folder) != before


def test_a_large_file_is_told_apart_at_its_ends_and_between(folder: Path):
    """Padding of 100 MB makes the samples sparse."""
    weights = folder / "model.safetensors"
    header_size = weights.stat().st_size
    size = 100 << 20
    assert size > 4 * (2 * EDGE_BYTES + NUM_PIECES * PIECE_BYTES)
    checkpoint = open_checkpoint(folder)
    seen = set()
    with weights.open("r+b") as file:
        file.truncate(size)
        for position in (header_size, size // NUM_PIECES * 7, size - 1):
            seen.add(fingerprint(checkpoint))
            file.seek(position)
            file.write(b"\x01")
            file.flush()
        seen.add(fingerprint(checkpoint))
    assert len(seen) == 4
