"""Reads the text assets of a model, whatever form it comes in.

Refuses what it does not understand; guesses nothing.
"""

from pathlib import Path

from okibi.core.errors import ModelError
from okibi.server.prompt.assets import TextAssets
from okibi.server.prompt.gguf_assets import load_gguf_assets
from okibi.server.prompt.hf_assets import load_hf_assets


def load_text_assets(model: Path) -> TextAssets:
    """Read them from a folder with `tokenizer.json` or from a `.gguf` file.

    Raises:
        ModelError: they are missing, damaged or of an unknown kind.
    """
    if model.is_dir():
        return load_hf_assets(model)
    if model.suffix.lower() == ".gguf" and model.is_file():
        return load_gguf_assets(model)
    raise ModelError(f"{model} is neither a model folder nor a GGUF file")
