"""GGUF files that are broken or ask for what okibi does not run."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as QType
from transformers import LlamaConfig

from okibi.core.errors import ModelError
from okibi.core.kernels import KernelChoice
from okibi.execution.models.checkpoint import open_checkpoint
from okibi.execution.models.checkpoint.gguf_config import config_from_gguf
from okibi.execution.models.checkpoint.gguf_file import READABLE_TYPES
from okibi.execution.models.family import Model
from okibi.execution.models.loader import load_model
from tests.support.gguf_files import write_gguf
from tests.support.tiny_models import SHAPE, make_transformers_model

# The widest blocks of quantised types are 256 values.
WIDE: dict[str, Any] = SHAPE | {"hidden_size": 256, "intermediate_size": 256}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path, make_transformers_model(LlamaConfig(**SHAPE)))
    return path.read_bytes()


def test_the_config_is_the_models_own(whole: bytes, tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(whole)
    config = open_checkpoint(tmp_path / "model.gguf").config
    expected = LlamaConfig(**SHAPE).to_dict()
    for key in SHAPE:
        assert config[key] == expected[key]
    assert config["tie_word_embeddings"] is False


def test_text_that_is_no_utf_8_is_refused(whole: bytes, tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(whole.replace(b"llama", b"ll\xffma", 1))
    with pytest.raises(ModelError, match="not a readable GGUF file"):
        open_checkpoint(tmp_path / "model.gguf")


@pytest.mark.parametrize("qtype", sorted(READABLE_TYPES), ids=lambda qtype: qtype.name)
def test_stored_rows_are_those_that_are_read(qtype: QType, tmp_path: Path):
    model = make_transformers_model(LlamaConfig(**WIDE))
    write_gguf(tmp_path / "model.gguf", model, qtype=qtype)
    checkpoint, name = open_checkpoint(tmp_path / "model.gguf"), "blk.1.ffn_up.weight"
    stored, tensor = checkpoint.read_stored(name), checkpoint.read(name)
    assert stored.dtype == checkpoint.tensors[name].dtype == qtype.name
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    assert stored.rows.shape == (tensor.shape[0], tensor.shape[1] // block_values * block_bytes)
    assert not stored.rows.flags.owndata
    again = gguf.dequantize(np.array(stored.rows), qtype)
    assert np.array_equal(again, tensor.numpy())


def test_any_truncation_is_a_clear_error(whole: bytes, tmp_path: Path):
    path = tmp_path / "model.gguf"
    lengths = [*range(64), *range(64, len(whole) - 1, len(whole) // 97), len(whole) - 4096]
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="not a readable GGUF file"):
            load_model(path)


@pytest.mark.parametrize("kernels", [KernelChoice.REFERENCE, KernelChoice.AUTO])
def test_damaged_headers_never_hang_or_crash(whole: bytes, kernels: KernelChoice, tmp_path: Path):
    """Whatever stands in the header, it loads or is refused by a `ModelError`."""
    path = tmp_path / "model.gguf"
    generator = np.random.default_rng(0)
    num_loaded, num_refused = 0, 0
    for _ in range(150):
        damaged = bytearray(whole)
        position = int(generator.integers(0, 1500))
        damaged[position : position + 4] = generator.bytes(4)
        path.write_bytes(damaged)
        try:
            model = load_model(path, kernels=kernels)
        except ModelError:
            num_refused += 1
        else:
            num_loaded += 1
            if isinstance(model.module, Model):
                num_loaded_weights = sum(weight.numel() for weight in model.module.parameters())
                assert model.arch.num_parameters() == num_loaded_weights
    assert num_refused > 50, "most damage shows"
    assert num_loaded > 10, "some damage is to what no model depends on"


def test_another_file_is_refused(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(b"not a model at all" * 10)
    with pytest.raises(ModelError, match="magic"):
        load_model(tmp_path / "model.gguf")


def test_a_type_that_is_not_read_is_named(tmp_path: Path):
    wide: dict[str, Any] = SHAPE | {"hidden_size": 256, "intermediate_size": 256}
    model = make_transformers_model(LlamaConfig(**wide))
    write_gguf(tmp_path / "model.gguf", model, qtype=gguf.GGMLQuantizationType.Q2_K)
    with pytest.raises(ModelError, match="Q2_K"):
        load_model(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"expert_count": 8}, "experts"),
        ({"attention.sliding_window": 128}, "window"),
        ({"rope.scaling.type": "longrope"}, "rope type 'longrope'"),
    ],
)
def test_unsupported_metadata_is_refused(tmp_path: Path, metadata: dict[str, Any], message: str):
    model = make_transformers_model(LlamaConfig(**SHAPE))
    write_gguf(tmp_path / "model.gguf", model, metadata=metadata)
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "gpt2"}, r"'gpt2'; known: llama"),
        ({"split.count": 3}, "split"),
        ({}, r"no tensor token_embd"),
        ({"llama.rope.dimension_count": 4}, "rope.dimension_count"),
        ({"llama.attention.value_length": 4}, "value_length"),
        ({"llama.attention.head_count": [4, 2]}, "head count"),
    ],
)
def test_metadata_no_config_could_say_is_refused(metadata: dict[str, Any], message: str):
    valid = {
        "general.architecture": "llama",
        "llama.attention.head_count": 4,
        "llama.embedding_length": 32,
    }
    with pytest.raises(ModelError, match=message):
        config_from_gguf(valid | metadata, {}, None)
