"""Text assets of a GGUF file: the vocabulary in its metadata becomes a `tokenizers.Tokenizer`.

Knows byte-level BPE (`gpt2`) with the pre-tokenizers of `pretokenizers`, and SentencePiece BPE
(`llama`), whose merges follow from the scores of its pieces.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from tokenizers.processors import TemplateProcessing

from okibi.core.errors import ModelError
from okibi.server.prompt.assets import TextAssets
from okibi.server.prompt.gguf_metadata import read_gguf_metadata
from okibi.server.prompt.pretokenizers import IGNORE_MERGES, NFC_NORMALISED, PRETOKENIZERS

_CONTROL, _USER_DEFINED = 3, 4
_SPACE_MARK = "\u2581"
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_SPECIAL_KEYS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}

Metadata = Mapping[str, Any]


def load_gguf_assets(path: Path) -> TextAssets:
    """Raises `ModelError` if the file is damaged or its vocabulary of an unknown kind."""
    metadata = read_gguf_metadata(path)
    try:
        return _make_assets(metadata)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except Exception as error:  # the library raises nothing more specific
        raise ModelError(f"{path} has a damaged vocabulary: {error!r}") from error


def _make_assets(metadata: Metadata) -> TextAssets:
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer = _byte_level_bpe(metadata)
    elif kind == "llama":
        tokenizer = _sentence_piece_bpe(metadata)
    else:
        raise ModelError(f"a vocabulary of kind {kind!r} is not known; okibi reads gpt2 and llama")
    tokens = metadata["tokenizer.ggml.tokens"]
    _add_special_tokens(tokenizer, tokens, metadata.get("tokenizer.ggml.token_type", ()))
    special = {
        name: tokens[token_id]
        for name, key in _SPECIAL_KEYS.items()
        if (token_id := metadata.get(f"tokenizer.ggml.{key}")) is not None
    }
    _add_bos(tokenizer, metadata, special, default=kind == "llama")
    ends = [metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS]
    return TextAssets(
        tokenizer=tokenizer,
        chat_template=metadata.get("tokenizer.chat_template"),
        special_tokens=special,
        eos_token_ids=tuple(sorted({end for end in ends if end is not None})),
    )


def _byte_level_bpe(metadata: Metadata) -> Tokenizer:
    variant = metadata.get("tokenizer.ggml.pre", "default")
    if variant not in PRETOKENIZERS:
        known = ", ".join(sorted(PRETOKENIZERS))
        raise ModelError(f"the pre-tokenizer {variant!r} is not known; okibi knows {known}")
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=merges,
            ignore_merges=variant in IGNORE_MERGES,
        )
    )
    if variant in NFC_NORMALISED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = PRETOKENIZERS[variant]()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_piece_bpe(metadata: Metadata) -> Tokenizer:
    tokens: Sequence[str] = metadata["tokenizer.ggml.tokens"]
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    unknown = tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=_merges_from_scores(vocab, metadata["tokenizer.ggml.scores"]),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    spaces = normalizers.Replace(" ", _SPACE_MARK)
    has_prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend(_SPACE_MARK), spaces]) if has_prefix else spaces
    )
    steps = [decoders.Replace(_SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if has_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _merges_from_scores(vocab: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Pairs of pieces that join into a piece, the best-scored result first.

    SentencePiece always joins the pair whose result scores best, which is what BPE does when merges
    are ranked by that score.
    """
    ranked = []
    for piece, token_id in vocab.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab:
                ranked.append((-scores[token_id], vocab[left], vocab[right], left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


def _add_special_tokens(tokenizer: Tokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    for special, kind in ((True, _CONTROL), (False, _USER_DEFINED)):
        added = [
            AddedToken(token, normalized=False, special=special)
            for token, token_kind in zip(tokens, types, strict=False)
            if token_kind == kind
        ]
        if special:
            tokenizer.add_special_tokens(added)
        else:
            tokenizer.add_tokens(added)


def _add_bos(
    tokenizer: Tokenizer, metadata: Metadata, special: Mapping[str, str], *, default: bool
) -> None:
    bos = special.get("bos_token")
    if bos is None or not metadata.get("tokenizer.ggml.add_bos_token", default):
        return
    bos_id = metadata["tokenizer.ggml.bos_token_id"]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{bos}:0 $A:0", special_tokens=[(bos, bos_id)]
    )
