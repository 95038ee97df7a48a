"""A small byte-level tokenizer and its text assets, for tests that need text but no model.

It knows every byte, some merges, and four special tokens; every tokenizer made here is the same.
"""

from collections.abc import Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from okibi.server.prompt.assets import TextAssets

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|tool|>")
END_ID = 2
VOCAB_SIZE = 400

CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

STRICT_TEMPLATE = """\
{%- for message in messages %}
{%- if message.role == 'system' and not loop.first %}
{{- raise_exception('System message must be at the beginning') }}
{%- endif %}
{%- if not loop.first and message.role == messages[loop.index0 - 1].role %}
{{- raise_exception('Roles must alternate') }}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

_TRAINING_TEXT = (
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "def main(): return value in the list of the tools that the agent called",
    "Embers keep the fire through the night; 12345 67890 äöü 日本語 émigré",
)


def make_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(t, normalized=False, special=True) for t in SPECIAL_TOKENS],
        min_frequency=1,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TRAINING_TEXT, trainer)
    return tokenizer


def make_assets(
    *, chat_template: str | None = CHAT_TEMPLATE, special_tokens: Mapping[str, str] | None = None
) -> TextAssets:
    return TextAssets(
        tokenizer=make_tokenizer(),
        chat_template=chat_template,
        special_tokens=special_tokens or {"eos_token": SPECIAL_TOKENS[END_ID]},
        eos_token_ids=(END_ID,),
    )
