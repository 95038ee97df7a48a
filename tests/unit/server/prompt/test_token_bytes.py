"""Bytes of tokens that were added to a vocabulary of bytes."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from okibi.server.prompt.token_bytes import TokenBytes

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
LATIN_1 = ["naïve", "smörgås", "¿qué?"]
ADDED = [*LATIN_1, "日本", "two words é", "Ġgo", "plain"]


def byte_level(vocab: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={entry: i for i, entry in enumerate(vocab)}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_pre_tokenizer(vocab: list[str]) -> Tokenizer:
    tokenizer = byte_level(vocab)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def with_normalizer(vocab: list[str]) -> Tokenizer:
    """The way to spell bytes in which `tokenizers` itself decodes every added token right."""
    tokenizer = byte_level(vocab)
    tokenizer.normalizer = normalizers.ByteLevel()
    return tokenizer


def joined(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    token_bytes = TokenBytes(tokenizer)
    return b"".join(token_bytes.of(token_id) for token_id in ids)


@pytest.mark.parametrize("text", ADDED)
def test_an_added_token_stands_for_the_text_it_is_found_in(text: str):
    tokenizer = with_pre_tokenizer(ALPHABET)
    tokenizer.add_tokens([AddedToken(added, normalized=False) for added in ADDED])
    ids = tokenizer.encode(f"né {text} ñ", add_special_tokens=False).ids
    assert tokenizer.token_to_id(text) in ids
    assert joined(tokenizer, ids).decode() == f"né {text} ñ"


@pytest.mark.parametrize("text", ADDED)
def test_an_added_token_stands_for_what_decoding_yields(text: str):
    tokenizer = with_normalizer(ALPHABET)
    tokenizer.add_tokens(ADDED)
    ids = tokenizer.encode(f"né {text} ñ", add_special_tokens=False).ids
    assert tokenizer.get_vocab()[text] in ids
    assert joined(tokenizer, ids).decode() == tokenizer.decode(ids) == f"né {text} ñ"


@pytest.mark.parametrize("text", LATIN_1)
def test_an_added_token_may_stand_in_the_vocabulary_too(text: str):
    tokenizer = with_pre_tokenizer([*ALPHABET, text])
    tokenizer.add_tokens([text])
    assert joined(tokenizer, tokenizer.encode(text).ids) == text.encode()


def test_a_special_token_is_plain_text_as_well():
    tokenizer = with_pre_tokenizer(ALPHABET)
    tokenizer.add_special_tokens(["<é>", "<|ñ é|>"])
    for text in ("<é>", "<|ñ é|>"):
        assert tokenizer.encode(text).tokens == [text]
        assert joined(tokenizer, tokenizer.encode(text).ids) == text.encode()


def test_an_added_letter_with_an_id_of_its_own_is_plain_text():
    tokenizer = with_pre_tokenizer([letter for letter in ALPHABET if letter != "é"])
    tokenizer.add_tokens(["é"])
    assert joined(tokenizer, tokenizer.encode("été").ids) == "été".encode()


def test_an_added_letter_that_is_a_byte_of_the_alphabet_stays_that_byte():
    tokenizer = with_pre_tokenizer(ALPHABET)
    tokenizer.add_tokens(["é"])
    ids = tokenizer.encode("鰀").ids
    assert tokenizer.token_to_id("é") in ids
    assert joined(tokenizer, ids).decode() == tokenizer.decode(ids) == "鰀"
