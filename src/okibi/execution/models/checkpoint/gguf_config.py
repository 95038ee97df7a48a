"""GGUF metadata, said as a Hugging Face config.

The registry of GGUF architectures: a new one is a new module beside `gguf_dense` and a line here.
Owns only what holds for all of them.
"""

from collections.abc import Callable, Mapping

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint.checkpoint import TensorInfo
from okibi.execution.models.checkpoint.gguf_dense import dense_config
from okibi.execution.models.checkpoint.gguf_metadata import GGUFMetadata

CONFIG_OF: dict[str, Callable[[GGUFMetadata], dict[str, object]]] = {
    "llama": dense_config,
    "qwen2": dense_config,
    "qwen3": dense_config,
}


def config_from_gguf(
    metadata: Mapping[str, object],
    tensors: Mapping[str, TensorInfo],
    rope_divisors: list[float] | None,
) -> dict[str, object]:
    """The config.json that the metadata amounts to.

    Raises:
        ModelError: the architecture is unknown or uses something unsupported.
    """
    if metadata.get("split.count", 1) not in (0, 1):
        raise ModelError("okibi does not read split GGUF files; merge them with gguf-split")
    name = str(metadata.get("general.architecture"))
    if name not in CONFIG_OF:
        known = ", ".join(CONFIG_OF)
        raise ModelError(f"okibi does not know the GGUF architecture {name!r}; known: {known}")
    prefix = f"{name}."
    values = {
        key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)
    }
    return CONFIG_OF[name](
        GGUFMetadata(architecture=name, values=values, tensors=tensors, rope_divisors=rope_divisors)
    )
