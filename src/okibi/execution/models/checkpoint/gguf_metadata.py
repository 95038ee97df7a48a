"""What a GGUF file says of its model, apart from the tensors' bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

from okibi.execution.models.checkpoint.checkpoint import TensorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GGUFMetadata:
    """The part of the metadata that describes the architecture.

    Attributes:
        architecture: GGUF's own name of it.
        values: The keys under that name, without it: `block_count`, `rope.freq_base` and so on.
        tensors: By GGUF name; biases and the presence of an output matrix show only here.
        rope_divisors: Content of `rope_freqs.weight`, if the file has it.
    """

    architecture: str
    values: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]
    rope_divisors: list[float] | None
