"""What a config.json means.

The registry of families, and the one way from a config to an architecture. A new family is a new
module and a name in `FAMILIES`. Standard library only: the executor builds models from the result
and the simulator prices it.
"""

from okibi.core.arch.config_reader import Config, ConfigReader
from okibi.core.arch.family import Arch, Family
from okibi.core.arch.llama import LLAMA
from okibi.core.arch.mistral import MISTRAL
from okibi.core.arch.qwen2 import QWEN2
from okibi.core.arch.qwen3 import QWEN3
from okibi.core.errors import ModelError

FAMILIES: dict[str, Family] = {family.name: family for family in (LLAMA, MISTRAL, QWEN2, QWEN3)}

_FAMILY_OF = {name: family for family in FAMILIES.values() for name in family.architectures}


def parse_config(config: Config) -> Arch:
    """The architecture that a config describes.

    `architectures` decides where it is given, else `model_type`.

    Raises:
        ModelError: the architecture is unknown, or the config asks for something unsupported.
    """
    reader = ConfigReader(config)
    architectures = reader.texts("architectures")
    if architectures:
        name, family = architectures[0], _FAMILY_OF.get(architectures[0])
    else:
        name = reader.text("model_type") or "(none named)"
        family = FAMILIES.get(name)
    if family is None:
        known = ", ".join(_FAMILY_OF)
        raise ModelError(f"okibi does not know the architecture {name!r}; known: {known}")
    return family.parse(reader)


__all__ = ["FAMILIES", "Arch", "Config", "Family", "parse_config"]
