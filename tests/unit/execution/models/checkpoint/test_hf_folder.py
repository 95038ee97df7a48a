"""Hugging Face folders: whole, sharded, broken."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint import open_checkpoint
from okibi.execution.models.checkpoint.hf_folder import INDEX_NAME
from okibi.execution.models.loader import load_model
from tests.support.native_kernels import load_on, torch_module
from tests.support.tiny_models import save_tiny_model

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny_model("qwen3", tmp_path)
    return tmp_path


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Keyword `a__b` stands for tensor `a.b`; None removes it."""
    tensors = load_file(folder / WEIGHTS)
    for key, tensor in changes.items():
        name = key.replace("__", ".")
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, folder / WEIGHTS)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return torch_module(load_on(folder, "reference")).state_dict()


def test_shards_are_one_model(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    sharded = tmp_path_factory.mktemp("sharded")
    save_tiny_model("qwen3", sharded, max_shard_size="20KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    assert (sharded / INDEX_NAME).exists()
    ours, theirs = weights_of(sharded), weights_of(folder)
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_stored_rows_are_those_that_are_read(dtype: torch.dtype, tmp_path: Path):
    save_tiny_model("qwen3", tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, tmp_path / WEIGHTS)
    checkpoint, name = open_checkpoint(tmp_path), "model.layers.1.mlp.down_proj.weight"
    stored, tensor = checkpoint.read_stored(name), checkpoint.read(name)
    assert stored.dtype == checkpoint.tensors[name].dtype
    assert stored.rows.shape == (tensor.shape[0], tensor.shape[1] * dtype.itemsize)
    assert torch.from_numpy(stored.rows).view(dtype).equal(tensor)


def test_weights_are_converted_to_the_dtype_asked_for(folder: Path):
    module = torch_module(load_on(folder, "reference", dtype="bfloat16"))
    assert {weight.dtype for weight in module.parameters()} == {torch.bfloat16}
    norm = module.get_parameter("norm.weight")
    assert norm.equal(weights_of(folder)["norm.weight"].bfloat16())


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [(5, None, (5,)), ([5, 6, 5], None, (5, 6)), (5, [7, 8], (7, 8)), (None, None, ())],
)
def test_end_of_sequence_ids(folder: Path, config, generation, expected):
    (folder / "generation_config.json").unlink(missing_ok=True)
    edit_config(folder, eos_token_id=config)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    assert load_model(folder).eos_token_ids == expected


def test_derived_and_tied_extras_are_not_needed(folder: Path):
    edit_config(folder, tie_word_embeddings=True)
    edit_weights(folder, model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(8))
    assert "lm_head.weight" not in weights_of(folder)


class TestRefused:
    def test_a_missing_path(self, tmp_path: Path):
        with pytest.raises(ModelError, match="does not exist"):
            load_model(tmp_path / "nothing")

    def test_a_file_of_another_kind(self, tmp_path: Path):
        (tmp_path / "model.pt").write_bytes(b"")
        with pytest.raises(ModelError, match="neither"):
            load_model(tmp_path / "model.pt")

    def test_an_empty_folder(self, tmp_path: Path):
        with pytest.raises(ModelError, match=r"config\.json does not exist"):
            load_model(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
    def test_a_config_that_is_no_json_object(self, folder: Path, text: str):
        (folder / "config.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(ModelError, match="JSON"):
            load_model(folder)

    def test_pickled_weights(self, folder: Path):
        (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
        with pytest.raises(ModelError, match=r"not \.bin"):
            load_model(folder)

    def test_a_truncated_file(self, folder: Path):
        content = (folder / WEIGHTS).read_bytes()
        for length in (0, 7, 100, len(content) - 1):
            (folder / WEIGHTS).write_bytes(content[:length])
            with pytest.raises(ModelError, match="cut short"):
                load_model(folder)

    def test_a_missing_shard(self, folder: Path):
        (folder / INDEX_NAME).write_text(json.dumps({"weight_map": {"x": "gone.safetensors"}}))
        with pytest.raises(ModelError, match=r"lacks gone\.safetensors"):
            load_model(folder)

    def test_an_index_without_a_map(self, folder: Path):
        (folder / INDEX_NAME).write_text("{}")
        with pytest.raises(ModelError, match="weight_map"):
            load_model(folder)

    def test_a_missing_tensor(self, folder: Path):
        edit_weights(folder, model__norm__weight=None)
        with pytest.raises(ModelError, match=r"no tensor model\.norm\.weight"):
            load_model(folder)

    def test_a_wrong_shape(self, folder: Path):
        edit_weights(folder, model__norm__weight=torch.ones(31))
        with pytest.raises(ModelError, match=r"\[31\].*\[32\]"):
            load_model(folder)

    def test_a_tensor_the_architecture_does_not_have(self, folder: Path):
        edit_weights(folder, model__layers__0__self_attn__q_proj__bias=torch.ones(64))
        with pytest.raises(ModelError, match=r"does not use, such as .*q_proj\.bias"):
            load_model(folder)

    def test_an_integer_tensor(self, folder: Path):
        edit_weights(folder, model__norm__weight=torch.ones(32, dtype=torch.int8))
        with pytest.raises(ModelError, match="I8"):
            load_model(folder)
