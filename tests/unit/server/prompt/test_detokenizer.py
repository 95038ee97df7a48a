"""Streamed text never splits a character, and is what decoding everything at once yields."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders

from okibi.core.errors import ModelError
from okibi.server.prompt.detokenizer import Detokenizer
from okibi.server.prompt.token_bytes import TokenBytes
from tests.support.tiny_text import END_ID, VOCAB_SIZE, make_tokenizer
from tests.unit.server.prompt.test_text_encoder import sentence_piece_tokenizer

TOKENIZER = make_tokenizer()
SENTENCE_PIECE = sentence_piece_tokenizer()
EXAMPLES = ["👩‍👩‍👧‍👦 family", "日本語テキスト", "naïve émigré", "a\u0301\u0302", "🇯🇵🏳️‍🌈", "ascii"]


def stream(tokenizer: Tokenizer, token_ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(TokenBytes(tokenizer))
    return [*(detokenizer.push(token_id) for token_id in token_ids), detokenizer.finish()]


@pytest.mark.parametrize("text", EXAMPLES)
def test_chunks_are_whole_characters(text: str):
    chunks = stream(TOKENIZER, TOKENIZER.encode(text).ids)
    assert "".join(chunks) == text
    assert all("\ufffd" not in chunk for chunk in chunks)


@pytest.mark.parametrize("text", EXAMPLES)
def test_byte_fallback_tokens_join_to_characters(text: str):
    ids = SENTENCE_PIECE.encode(text.replace(" ", "▁")).ids
    chunks = stream(SENTENCE_PIECE, ids)
    assert "".join(chunks) == text == SENTENCE_PIECE.decode(ids)


@given(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=40))
def test_any_tokens_stream_to_what_decoding_them_yields(token_ids: list[int]):
    assert "".join(stream(TOKENIZER, token_ids)) == TOKENIZER.decode(token_ids)


@given(st.text(min_size=1, max_size=10), st.data())
def test_a_cut_tail_becomes_one_replacement_character(text: str, data: st.DataObject):
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    kept = data.draw(st.integers(0, len(ids)))
    chunks = stream(TOKENIZER, ids[:kept])
    joined = "".join(chunks)
    assert joined == TOKENIZER.decode(ids[:kept])
    if "\ufffd" not in text:
        assert joined.count("\ufffd") <= 1
        assert "\ufffd" not in "".join(chunks[:-1])


def test_special_tokens_are_no_text():
    ids = [*TOKENIZER.encode("the").ids, END_ID, *TOKENIZER.encode(" cat").ids]
    assert "".join(stream(TOKENIZER, ids)) == "the cat"


def test_ids_without_an_entry_are_no_text():
    assert "".join(stream(TOKENIZER, [VOCAB_SIZE + 7])) == ""


def test_bytes_of_a_token_spell_specials_out():
    assert TokenBytes(TOKENIZER).of(END_ID) == b"<|im_end|>"


def test_an_unknown_decoder_is_refused():
    tokenizer = make_tokenizer()
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ModelError, match="WordPiece"):
        TokenBytes(tokenizer)


def test_packed_ids_round_trip():
    ids = TOKENIZER.encode("Embers keep the fire").ids
    assert array("i", array("i", ids).tobytes()).tolist() == ids
