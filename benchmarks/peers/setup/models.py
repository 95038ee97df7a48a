"""The same weights in the three forms that the peers read.

From a GGUF file (the default model): the file as it is, its bfloat16 dequantisation as a Hugging
Face folder, and that as a GGUF file. From a Hugging Face folder: the folder, and GGUF files of it
in bfloat16 and in Q4_1. Forms are made once and kept beside the peers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.peers.setup.llamacpp import LlamaCppInstall
from benchmarks.peers.setup.steps import SetupSteps
from okibi.launch.model_catalog import DEFAULT_MODEL
from okibi.launch.model_pull import resolve_model

RANDOM_QWEN3 = "qwen3-0.6b-random"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelForms:
    """One model in every form, and the two sizes that set-ups depend on."""

    hf: Path
    bf16_gguf: Path
    q4_1_gguf: Path
    vocab_size: int
    kv_bytes_per_token: int


def prepare_model(
    name_or_path: str, home: Path, llamacpp: LlamaCppInstall, steps: SetupSteps
) -> ModelForms:
    """Make the forms that are not there yet. Raises SetupError or ModelError."""
    maker = _FormMaker(home / "models", llamacpp, steps)
    if name_or_path == RANDOM_QWEN3:
        return maker.from_hf(maker.random_qwen3())
    source = resolve_model(name_or_path).path
    return maker.from_hf(source) if source.is_dir() else maker.from_gguf(source)


class _FormMaker:
    def __init__(self, folder: Path, llamacpp: LlamaCppInstall, steps: SetupSteps) -> None:
        self._folder = folder
        self._llamacpp = llamacpp
        self._steps = steps

    def from_gguf(self, source: Path) -> ModelForms:
        hf = self._script("to_hf", source, source.stem)
        return _forms(hf, self._bf16(hf), source)

    def from_hf(self, hf: Path) -> ModelForms:
        bf16 = self._bf16(hf)
        return _forms(hf, bf16, self._q4_1(bf16))

    def random_qwen3(self) -> Path:
        """The folder with the random model."""
        return self._script("random_qwen3", resolve_model(DEFAULT_MODEL).path, RANDOM_QWEN3)

    def _script(self, script: str, source: Path, name: str) -> Path:
        """What a script of this package makes of `source`, in a folder of its own."""
        folder = self._folder / f"{name}-{_digest(source)}-hf"
        command = [sys.executable, "-m", f"benchmarks.peers.setup.{script}", source, folder]
        title = f"{name}: bfloat16 weights as a Hugging Face folder"
        self._steps.make_folder(folder, script, lambda: self._steps.run(title, command))
        return folder

    def _bf16(self, hf: Path) -> Path:
        folder = self._folder / f"{hf.name}-{_digest(hf)}-bf16"
        file = folder / "model.gguf"
        command = [sys.executable, self._llamacpp.convert, hf]
        command += ["--outtype", "bf16", "--outfile", file]
        title = f"{hf.name}: bfloat16 GGUF"
        environment = {"PYTHONPATH": str(self._llamacpp.convert_path)}
        self._steps.make_folder(
            folder, "bf16", lambda: self._steps.run(title, command, environment=environment)
        )
        return file

    def _q4_1(self, bf16: Path) -> Path:
        folder = bf16.parent.with_name(f"{bf16.parent.name}-q4_1")
        file = folder / "model.gguf"
        command = [self._llamacpp.quantize, bf16, file, "Q4_1"]
        title = f"{bf16.parent.name}: Q4_1 GGUF"
        self._steps.make_folder(folder, "q4_1", lambda: self._steps.run(title, command))
        return file


def _forms(hf: Path, bf16_gguf: Path, q4_1_gguf: Path) -> ModelForms:
    config = json.loads((hf / "config.json").read_text())
    return ModelForms(
        hf=hf,
        bf16_gguf=bf16_gguf,
        q4_1_gguf=q4_1_gguf,
        vocab_size=config["vocab_size"],
        kv_bytes_per_token=kv_bytes_per_token(config),
    )


def kv_bytes_per_token(config: dict[str, int]) -> int:
    """Bytes of keys and values of one token, 16 bits a number, without windows or latents."""
    num_heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // num_heads
    num_kv_heads = config.get("num_key_value_heads", num_heads)
    return 2 * 2 * config["num_hidden_layers"] * num_kv_heads * head_dim


def _digest(source: Path) -> str:
    """Tells models of one name apart: by place, size and time of the weights."""
    files = [source] if source.is_file() else sorted(source.glob("*.safetensors"))
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return sha256(repr(facts).encode()).hexdigest()[:8]
