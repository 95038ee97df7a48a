"""The families okibi can run, by `Arch.family`.

The other half of `core.arch.FAMILIES`: a new family is a new package and a line here.
"""

from typing import Any

from okibi.execution.models.dense import DENSE
from okibi.execution.models.family import ModelFamily

# The type of arch differs from line to line; its `family` says which, so none is ever mistaken.
MODEL_FAMILIES: dict[str, ModelFamily[Any, Any]] = {
    "llama": DENSE,
    "mistral": DENSE,
    "qwen2": DENSE,
    "qwen3": DENSE,
}
