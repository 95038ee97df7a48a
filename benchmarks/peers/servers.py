"""How each server is started: command, environment, and where it says that it is ready.

Pure. Settings are each engine's best for two cores, found by measuring; all get the same KV memory
where the engine lets it be set.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.agents import MAX_CONTEXT, TEMPLATE_ROOM
from benchmarks.peers.cases import SLOT_CONTEXT, Stage
from benchmarks.peers.setup.llamacpp import LlamaCppInstall
from benchmarks.peers.setup.models import ModelForms
from benchmarks.peers.setup.vllm import VllmInstall
from benchmarks.peers.variants import Peer, Variant, Weights

MODEL_NAME = "m"
HOST = "127.0.0.1"

_NUM_STREAM_SLOTS = 32
_STREAM_SLOT_CONTEXT = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSpec:
    """One server. `environment` comes on top of this process's own."""

    command: tuple[str, ...]
    environment: dict[str, str]
    url: str
    ready_path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Peers:
    """Everything that was set up, and the tokens of KV memory for each server."""

    vllm: VllmInstall | None
    llamacpp: LlamaCppInstall
    model: ModelForms
    kv_tokens: int
    cache: Path

    @property
    def kv_bytes(self) -> int:
        """The KV memory, 16 bits a number."""
        return self.kv_tokens * self.model.kv_bytes_per_token

    def spec(self, variant: Variant, stage: Stage, port: int) -> ServerSpec:
        """The server of a variant; `stage` matters to engines with slots."""
        if variant.peer is Peer.LLAMACPP:
            return self._llamacpp(variant, stage, port)
        return self._vllm(port) if variant.peer is Peer.VLLM else self._okibi(variant, port)

    def _okibi(self, variant: Variant, port: int) -> ServerSpec:
        bf16 = variant.weights is Weights.BF16
        words = [sys.executable, "-m", "okibi", "serve"]
        words += [str(self.model.hf if bf16 else self.model.q4_1_gguf)]
        words += ["--served-model-name", MODEL_NAME, "--max-model-len", str(SLOT_CONTEXT)]
        words += ["--kv-cache-memory-bytes", str(self.kv_bytes)]
        return _spec(words, {}, port, "/ready")

    def _vllm(self, port: int) -> ServerSpec:
        assert self.vllm is not None
        words = [str(self.vllm.python), "-m", "vllm.entrypoints.openai.api_server"]
        words += ["--model", str(self.model.hf), "--served-model-name", MODEL_NAME]
        words += ["--max-model-len", str(SLOT_CONTEXT), "--enable-prompt-tokens-details"]
        words += ["--kv-cache-memory-bytes", str(self.kv_bytes)]
        environment = {
            "HF_HUB_OFFLINE": "1",
            "LD_PRELOAD": ":".join(self.vllm.preload),
            "VLLM_CACHE_ROOT": str(self.cache),
            "VLLM_CPU_OMP_THREADS_BIND": "0-1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        return _spec(words, environment, port, "/health")

    def _llamacpp(self, variant: Variant, stage: Stage, port: int) -> ServerSpec:
        bf16 = variant.weights is Weights.BF16
        file = self.model.bf16_gguf if bf16 else self.model.q4_1_gguf
        num_slots, slot_context = self.slots(stage)
        words = [str(self.llamacpp.server), "--model", str(file), "--alias", MODEL_NAME]
        words += ["--threads", "2", "--flash-attn", "off", "--cache-ram", "0", "--no-kv-unified"]
        words += ["--parallel", str(num_slots), "--ctx-size", str(num_slots * slot_context)]
        return _spec(words, {}, port, "/health")

    def slots(self, stage: Stage) -> tuple[int, int]:
        """Slots of llama.cpp and the tokens of each; as many for agents as the memory holds."""
        if stage is Stage.SINGLE:
            return 1, SLOT_CONTEXT
        if stage is Stage.STREAMS:
            return _NUM_STREAM_SLOTS, _STREAM_SLOT_CONTEXT
        context = MAX_CONTEXT + TEMPLATE_ROOM
        return max(1, self.kv_tokens // context), context


def _spec(words: list[str], environment: dict[str, str], port: int, ready_path: str) -> ServerSpec:
    return ServerSpec(
        command=(*words, "--host", HOST, "--port", str(port)),
        environment=environment,
        url=f"http://{HOST}:{port}",
        ready_path=ready_path,
    )
