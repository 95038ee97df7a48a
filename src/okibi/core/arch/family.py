"""What okibi asks of an architecture, whatever its family.

Owns the two ends of the registry: `Arch`, which is all that anyone outside a family may know of a
model's numbers, and `Family`, by which a family enters the registry. What only a family itself
understands (head counts, windows, experts) stays in its own dataclass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.kv_spec import KVCacheSpec, KVDType


class Arch(Protocol):
    """A model in numbers: what a config.json means."""

    @property
    def family(self) -> str:
        """Key of the family in the registries of `core.arch` and `execution.models`."""
        ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_position(self) -> int:
        """Longest context the model was made for, in tokens."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers by which people tell models of one family apart, by name."""
        ...

    def kv_specs(self, dtype: KVDType) -> tuple[KVCacheSpec, ...]:
        """What the layers keep between steps, if attention's keys and values are of `dtype`."""
        ...

    def num_parameters(self) -> int:
        """Number of weights, tied embeddings counted once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How configs of one family are told and read.

    Attributes:
        name: Also the `model_type` that means this family where a config names no architecture.
        architectures: Names in a config's `architectures`.
        parse: From config to arch. Raises `ModelError` on what is missing, wrong or unsupported.
    """

    name: str
    architectures: tuple[str, ...]
    parse: Callable[[ConfigReader], Arch]
