"""Text assets of a Hugging Face model folder.

Reads `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`, `generation_config.json` and
`config.json`; only the first is required.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from okibi.core.errors import ModelError
from okibi.server.prompt.assets import TextAssets

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


def load_hf_assets(folder: Path) -> TextAssets:
    """Raises `ModelError` if a file is missing or damaged."""
    tokenizer = _read_tokenizer(folder / "tokenizer.json")
    config = _read_json(folder / "tokenizer_config.json")
    special = {name: _content(config[name]) for name in _SPECIAL_TOKENS if config.get(name)}
    _apply_add_bos(tokenizer, config, special)
    return TextAssets(
        tokenizer=tokenizer,
        chat_template=_chat_template(folder, config),
        special_tokens=special,
        eos_token_ids=_eos_token_ids(folder, tokenizer, special),
    )


def _read_tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise ModelError(f"{path.parent} has no tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ModelError(f"{path} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} does not hold a JSON object")
    return content


def _content(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])


def _apply_add_bos(
    tokenizer: Tokenizer, config: Mapping[str, Any], special: Mapping[str, str]
) -> None:
    """`add_bos_token`, where a folder states it, overrides the post-processor in the file."""
    bos, wanted = special.get("bos_token"), config.get("add_bos_token")
    if wanted is None or bos is None or (bos_id := tokenizer.token_to_id(bos)) is None:
        return
    adds_bos = tokenizer.encode("a").ids[:1] == [bos_id]
    if adds_bos == wanted:
        return
    tokens = [(bos, bos_id)] if wanted else []
    single = f"{bos}:0 $A:0" if wanted else "$A:0"
    tokenizer.post_processor = TemplateProcessing(single=single, special_tokens=tokens)


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        return named.get("default")
    return template


def _eos_token_ids(
    folder: Path, tokenizer: Tokenizer, special: Mapping[str, str]
) -> tuple[int, ...]:
    """The union of what the folder's files call an end of sequence."""
    found: list[int | None] = []
    for name in ("generation_config.json", "config.json"):
        declared = _read_json(folder / name).get("eos_token_id")
        found += declared if isinstance(declared, list) else [declared]
    if (eos := special.get("eos_token")) is not None:
        found.append(tokenizer.token_to_id(eos))
    return tuple(sorted({token_id for token_id in found if token_id is not None}))
