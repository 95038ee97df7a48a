"""What a model's own files say about text: tokenizer, chat template, special tokens.

The shape that `hf_assets` (a Hugging Face folder) and `gguf_assets` (a GGUF file) both fill. Owns
no reading itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAssets:
    """Everything needed to go from messages to ids and from ids to text.

    Attributes:
        chat_template: Jinja source; None if the model has none (a base model).
        special_tokens: Names a template may use (`bos_token`, `eos_token`, ...) and their text.
        eos_token_ids: Tokens that end a generation, ascending.
    """

    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    eos_token_ids: tuple[int, ...] = ()
