"""What a config.json means.

The registry of families, and the one way from a config to an architecture. A new family is a new
file and a line in each table. Standard library only: the executor builds models from the result
and the simulator prices it.
"""

from collections.abc import Callable

from okibi.core.arch.config_reader import Config, ConfigReader
from okibi.core.arch.dense import DenseArch, kv_bytes_per_token, kv_specs, num_parameters
from okibi.core.arch.llama import parse_llama
from okibi.core.arch.mistral import parse_mistral
from okibi.core.arch.qwen2 import parse_qwen2
from okibi.core.arch.qwen3 import parse_qwen3
from okibi.core.errors import ModelError

FAMILIES: dict[str, Callable[[ConfigReader], DenseArch]] = {
    "llama": parse_llama,
    "mistral": parse_mistral,
    "qwen2": parse_qwen2,
    "qwen3": parse_qwen3,
}

ARCHITECTURES: dict[str, str] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


def parse_config(config: Config) -> DenseArch:
    """The architecture that a config describes.

    `architectures` decides where it is given, else `model_type`.

    Raises:
        ModelError: the architecture is unknown, or the config asks for something unsupported.
    """
    reader = ConfigReader(config)
    architectures = reader.texts("architectures")
    if architectures:
        name, family = architectures[0], ARCHITECTURES.get(architectures[0])
    else:
        family = name = reader.text("model_type") or "(none named)"
    if family not in FAMILIES:
        known = ", ".join(ARCHITECTURES)
        raise ModelError(f"okibi does not know the architecture {name!r}; known: {known}")
    return FAMILIES[family](reader)


__all__ = [
    "ARCHITECTURES",
    "FAMILIES",
    "Config",
    "DenseArch",
    "kv_bytes_per_token",
    "kv_specs",
    "num_parameters",
    "parse_config",
]
