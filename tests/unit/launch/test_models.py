"""`okibi models` as a person or a script calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from okibi.cli import app
from okibi.core.arch import parse_config
from okibi.core.errors import ModelError
from tests.support.tiny_models import CONFIGS, save_tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny_model("qwen3", tmp_path / "tiny-qwen")
    return tmp_path / "tiny-qwen"


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["models", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_list_says_what_is_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("OKIBI_CACHE_DIR", str(tmp_path))
    assert "not fetched" in run("list")
    (entry,) = json.loads(run("list", "--json"))
    assert (entry["name"], entry["path"]) == ("smollm2", None)


def test_show_tells_the_facts_of_a_folder(folder):
    facts = json.loads(run("show", str(folder), "--json"))
    arch = parse_config(CONFIGS["qwen3"]().to_dict())
    assert facts["family"] == "qwen3"
    assert facts["num_parameters"] == arch.num_parameters()
    assert facts["max_context_tokens"] == arch.max_position
    # 3 layers, keys and values, 2 KV heads, 16 elements
    assert facts["kv_bytes_per_token"] == {
        "float32": 3 * 2 * 2 * 16 * 4,
        "bfloat16": 3 * 2 * 2 * 16 * 2,
    }
    assert facts["file_bytes"] == (folder / "model.safetensors").stat().st_size
    assert "qwen3" in run("show", str(folder))


def test_show_of_a_model_that_is_not_there_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OKIBI_CACHE_DIR", str(tmp_path))
    with pytest.raises(ModelError, match="okibi models pull smollm2"):
        run("show")
