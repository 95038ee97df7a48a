"""Tokenising by remembered pieces equals tokenising the whole text."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from okibi.server.prompt import text_encoder
from okibi.server.prompt.messages import InvalidPrompt
from okibi.server.prompt.piece_memo import PieceMemo
from okibi.server.prompt.pretokenizers import (
    LLAMA3_PATTERN,
    PRETOKENIZERS,
    QWEN2_PATTERN,
    TEKKEN_PATTERN,
    cuts_between_words,
)
from okibi.server.prompt.text_encoder import TextEncoder, TooManyTokens, cut_at_word_ends
from tests.support.tiny_text import SPECIAL_TOKENS, make_tokenizer

NO_LIMIT = 1 << 30


def encode(encoder: TextEncoder, text: str, *, special: bool = False) -> list[int]:
    ids = encoder.encode(text, add_special_tokens=special, max_tokens=NO_LIMIT)
    return list(array("i", ids))


def sentence_piece_tokenizer(pre_tokenizer=None, normalizer=None) -> Tokenizer:
    """A Llama-2-like tokenizer: a word begins with an underscore, unknown bytes fall back."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"abcdefghijklmnopqrstuvwxyz", "th", "the", "▁the", "▁t", "he", "▁a", "an"]
    merges = [("t", "h"), ("th", "e"), ("▁", "t"), ("▁t", "he"), ("h", "e"), ("▁", "a")]
    merges += [("a", "n")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False) for text in ("<unk>", "<s>", "</s>")]
    )
    return tokenizer


def byte_level(variant: str, *, nfc: bool = False) -> Tokenizer:
    tokenizer = make_tokenizer()
    tokenizer.pre_tokenizer = PRETOKENIZERS[variant]()
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def with_normalised_token() -> Tokenizer:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(
        [AddedToken("<think>", normalized=True), AddedToken("<|im", normalized=False)]
    )
    return tokenizer


LEGACY = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
TOKENIZERS = {
    "gpt-2": lambda: byte_level("gpt-2"),
    "smollm": lambda: byte_level("smollm"),
    "llama3": lambda: byte_level("llama3"),
    "qwen2": lambda: byte_level("qwen2", nfc=True),
    "tekken": lambda: byte_level("tekken"),
    "prepend": lambda: sentence_piece_tokenizer(normalizer=LEGACY),
    "metaspace first": lambda: sentence_piece_tokenizer(
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    ),
    "metaspace always": lambda: sentence_piece_tokenizer(
        pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    ),
    "normalised added token": with_normalised_token,
}

PIECES = st.one_of(
    st.sampled_from(
        [
            *SPECIAL_TOKENS,
            "<s>",
            "</s>",
            "<think>",
            "<|im",
            "<|",
            " ",
            "\n",
            "\n\n",
            "the",
            " the an",
            "x\ny",
            "it's 5 a",
            '{"a":1, "b": [x]}',
            "don't",
            "a1b2",
            "=\n",
            "a\n\n  b",
            "_",
            " \u0301",
            ".\nThe",
            "e\u0301",
            "👩‍👩‍👧",
            "12",
            "\r\n",
            "\t",
        ]
    ),
    st.text(max_size=8),
)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_pieces_equal_the_whole_text(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_encoder, "LONG_PIECE_CHARS", 3)
    monkeypatch.setattr(text_encoder, "_WINDOW_CHARS", 2)
    tokenizer = TOKENIZERS[name]()
    encoder = TextEncoder(tokenizer, PieceMemo())

    @given(TEXTS)
    def check(text: str) -> None:
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert encode(encoder, text) == expected
        assert encode(encoder, text) == expected, "the second time it comes from the memo"

    check()


@pytest.mark.parametrize("variant", ["gpt-2", "smollm", "llama3", "qwen2", "tekken"])
def test_words_are_the_same_in_the_parts_as_in_the_whole(variant: str):
    pre_tokenizer = PRETOKENIZERS[variant]()

    def words(text: str) -> list[str]:
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]

    @given(TEXTS, st.integers(1, 5))
    def check(text: str, min_chars: int) -> None:
        parts = list(cut_at_word_ends(text, min_chars))
        assert "".join(parts) == text
        assert [word for part in parts for word in words(part)] == words(text)
        nfc = normalizers.NFC()
        assert "".join(map(nfc.normalize_str, parts)) == nfc.normalize_str(text)

    check()


@pytest.mark.parametrize("pattern", [LLAMA3_PATTERN, QWEN2_PATTERN, TEKKEN_PATTERN])
def test_published_patterns_cut_between_words(pattern: str):
    tokenizer = make_tokenizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    assert cuts_between_words(tokenizer)


def test_unknown_tokenizers_are_not_cut_between_words():
    assert not cuts_between_words(TOKENIZERS["prepend"]())
    assert not cuts_between_words(TOKENIZERS["metaspace always"]())
    prefixed = make_tokenizer()
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert not cuts_between_words(prefixed)


def test_tokens_that_reach_into_their_neighbours_are_left_to_the_tokenizer():
    tokenizer = make_tokenizer()
    tokenizer.add_tokens([AddedToken("<grab>", normalized=False, lstrip=True, rstrip=True)])
    encoder = TextEncoder(tokenizer, PieceMemo())
    text = "a <|im_end|> <grab> b"
    assert encode(encoder, text) == tokenizer.encode(text).ids


def test_only_new_pieces_are_tokenised():
    tokenizer = make_tokenizer()
    memo = PieceMemo()
    encoder = TextEncoder(tokenizer, memo)
    turns = [f"<|im_start|>user\nturn {i} " + "words " * 50 + "<|im_end|>\n" for i in range(20)]
    encode(encoder, "".join(turns))
    before = memo.num_bytes
    encode(encoder, "".join(turns) + "<|im_start|>user\none more<|im_end|>\n")
    assert 0 < memo.num_bytes - before < 700


def test_the_post_processor_applies_on_demand():
    tokenizer = sentence_piece_tokenizer(normalizer=LEGACY)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    encoder = TextEncoder(tokenizer, PieceMemo())
    assert encode(encoder, "the an", special=True) == tokenizer.encode("the an").ids
    assert encode(encoder, "the an") == tokenizer.encode("the an").ids[1:-1]
    assert encode(encoder, "", special=True) == [1, 2]


def test_counting_gives_up_beyond_the_limit():
    encoder = TextEncoder(make_tokenizer(), PieceMemo())
    line = "word " * 40 + "\n"
    with pytest.raises(TooManyTokens) as caught:
        encoder.encode(line * 10_000, add_special_tokens=False, max_tokens=1000)
    assert 1000 < caught.value.num_tokens < 100_000


def test_an_endless_word_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_encoder, "MAX_UNCUT_CHARS", 1000)
    monkeypatch.setattr(text_encoder, "LONG_PIECE_CHARS", 500)
    encoder = TextEncoder(make_tokenizer(), PieceMemo())
    assert encode(encoder, "word and " * 1000)
    with pytest.raises(InvalidPrompt, match="1,001 characters"):
        encode(encoder, "x" * 1001)


def test_the_memo_stays_within_its_bytes():
    memo = PieceMemo(max_bytes=10_000)
    encoder = TextEncoder(make_tokenizer(), memo)
    for index in range(200):
        encode(encoder, f"<|im_start|>message {index}<|im_end|>" + "x" * index)
        assert memo.num_bytes <= 10_000
    memo.put(("", "huge"), b"\0" * 20_000)
    assert memo.get(("", "huge")) is None
