"""Which engines are measured, and on which form of the weights.

A variant is an engine and a form of the weights. Its name (`vllm-bf16`) stands in records, tables
and on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from okibi.core.errors import ConfigError


class Peer(StrEnum):
    """An engine; okibi is one of them, measured by the same code."""

    OKIBI = "okibi"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"


class Weights(StrEnum):
    """A form of the same weights: 16 bits, or about 5 (GGUF's Q4_1)."""

    BF16 = "bf16"
    Q4_1 = "q4_1"


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine on one form of the weights."""

    peer: Peer
    weights: Weights

    @property
    def name(self) -> str:
        """As records and `--only` have it."""
        return f"{self.peer}-{self.weights}"

    @property
    def needs_server_per_stage(self) -> bool:
        """llama.cpp fixes the number and the length of its slots when it starts."""
        return self.peer is Peer.LLAMACPP


OKIBI_BF16 = Variant(Peer.OKIBI, Weights.BF16)
OKIBI_Q4_1 = Variant(Peer.OKIBI, Weights.Q4_1)
VLLM_BF16 = Variant(Peer.VLLM, Weights.BF16)
LLAMACPP_BF16 = Variant(Peer.LLAMACPP, Weights.BF16)
LLAMACPP_Q4_1 = Variant(Peer.LLAMACPP, Weights.Q4_1)

VARIANTS = (OKIBI_BF16, VLLM_BF16, OKIBI_Q4_1, LLAMACPP_Q4_1, LLAMACPP_BF16)


def select_variants(words: str | None) -> tuple[Variant, ...]:
    """Variants named by a list such as `okibi,vllm-bf16`, in the standing order; all for None.

    Raises ConfigError for a word that names none.
    """
    if words is None:
        return VARIANTS
    chosen: set[Variant] = set()
    for word in words.split(","):
        named = [each for each in VARIANTS if word.strip() in (each.name, each.peer)]
        if not named:
            names = ", ".join([*Peer, *(each.name for each in VARIANTS)])
            raise ConfigError(f"--only {word.strip()!r} is none of {names}")
        chosen.update(named)
    return tuple(each for each in VARIANTS if each in chosen)
