"""What a path means: one model, found once for all who read it."""

from pathlib import Path

import pytest

from okibi.core.errors import ModelError
from okibi.launch.model_catalog import ResolvedModel, find_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny-1.5"
    folder.mkdir()
    return folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"")


def test_a_hugging_face_folder_is_the_model_whatever_else_lies_in_it(folder: Path):
    put(folder, "config.json", "a.gguf", "b.gguf")
    assert find_model(str(folder)) == ResolvedModel(path=folder, name="tiny-1.5")


def test_a_folder_with_one_gguf_file_is_that_file_under_the_folders_name(folder: Path):
    put(folder, "model.gguf", "tokenizer.json")
    assert find_model(str(folder)) == ResolvedModel(path=folder / "model.gguf", name="tiny-1.5")


def test_a_file_is_served_under_its_own_name(folder: Path):
    put(folder, "small.q4.gguf")
    path = folder / "small.q4.gguf"
    assert find_model(str(path)) == ResolvedModel(path=path, name="small.q4")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), r"neither a config\.json nor a \.gguf"),
        (("tokenizer.json",), r"neither a config\.json nor a \.gguf"),
        (("b.gguf", "a.gguf"), r"several.*: a\.gguf, b\.gguf"),
    ],
)
def test_a_folder_of_no_model_or_of_several_is_refused(
    folder: Path, names: tuple[str, ...], message: str
):
    put(folder, *names)
    with pytest.raises(ModelError, match=message):
        find_model(str(folder))


def test_what_is_neither_a_path_nor_a_name_is_refused(folder: Path):
    with pytest.raises(ModelError, match=r"neither a path nor a known model \(smollm2\)"):
        find_model(str(folder / "nothing"))
