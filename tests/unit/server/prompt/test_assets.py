"""Text assets from model files: Hugging Face folders and GGUF vocabularies."""

import json
import random
import struct
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from okibi.core.errors import ModelError
from okibi.server.prompt.gguf_metadata import read_gguf_metadata
from okibi.server.prompt.load_assets import load_text_assets
from okibi.server.prompt.piece_memo import PieceMemo
from okibi.server.prompt.text_encoder import TextEncoder
from tests.support.tiny_text import CHAT_TEMPLATE, SPECIAL_TOKENS, make_tokenizer

TEXT = "the <|im_end|> cat 123\n日本 👩‍👩‍👧 émigré"


def save_folder(folder: Path, **config: Any) -> Path:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(), bos_token="<|endoftext|>", eos_token="<|im_end|>"
    )
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def save_gguf(path: Path, *, pre: str = "gpt-2", **values: Any) -> Path:
    """A GGUF file with the tiny tokenizer and no tensors."""
    model = json.loads(make_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL_TOKENS else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for key, value in values.items():
        writer.add_key_value(f"tokenizer.ggml.{key}", value, gguf.GGUFValueType.get_type(value))
    return finish(writer, path)


def finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_a_folder_encodes_as_transformers_does(tmp_path: Path):
    folder = save_folder(tmp_path, chat_template=CHAT_TEMPLATE)
    assets = load_text_assets(folder)
    assert (
        assets.tokenizer.encode(TEXT).ids == AutoTokenizer.from_pretrained(folder)(TEXT).input_ids
    )
    assert assets.chat_template == CHAT_TEMPLATE
    assert assets.special_tokens["bos_token"] == "<|endoftext|>"
    assert assets.eos_token_ids == (2,)


def test_a_template_file_wins_over_the_config(tmp_path: Path):
    save_folder(tmp_path, chat_template=[{"name": "default", "template": "in config"}])
    assert load_text_assets(tmp_path).chat_template == "in config"
    (tmp_path / "chat_template.jinja").write_text("in file")
    assert load_text_assets(tmp_path).chat_template == "in file"


def test_ends_are_the_union_of_what_the_files_say(tmp_path: Path):
    save_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 3]}')
    assert load_text_assets(tmp_path).eos_token_ids == (0, 2, 3)


@pytest.mark.parametrize("wanted", [True, False])
def test_add_bos_token_is_obeyed(tmp_path: Path, wanted: bool):
    assets = load_text_assets(save_folder(tmp_path, add_bos_token=wanted))
    encoder = TextEncoder(assets.tokenizer, PieceMemo())
    ids = array("i", encoder.encode("the", add_special_tokens=True, max_tokens=99)).tolist()
    assert (ids[0] == 0) == wanted


def test_truncation_in_the_file_is_not_obeyed(tmp_path: Path):
    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assets = load_text_assets(tmp_path)
    assert assets.tokenizer.encode(TEXT).ids == make_tokenizer().encode(TEXT).ids


@pytest.mark.parametrize("content", ["", "{}", "nonsense"])
def test_a_broken_folder_is_refused(tmp_path: Path, content: str):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_text_assets(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_text_assets(tmp_path)


def test_a_gguf_vocabulary_encodes_like_the_tokenizer_it_came_from(tmp_path: Path):
    assets = load_text_assets(save_gguf(tmp_path / "tiny.gguf"))
    assert assets.tokenizer.encode(TEXT).ids == make_tokenizer().encode(TEXT).ids
    assert assets.tokenizer.decode(assets.tokenizer.encode("a b").ids) == "a b"
    assert assets.chat_template == CHAT_TEMPLATE
    assert assets.eos_token_ids == (2,)
    assert assets.special_tokens == {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


def test_a_gguf_file_says_whether_to_add_bos(tmp_path: Path):
    with_bos = load_text_assets(save_gguf(tmp_path / "a.gguf", add_bos_token=True))
    assert with_bos.tokenizer.encode("the").ids[0] == 0


def test_gguf_pretokenizers_differ_where_they_should(tmp_path: Path):
    text = "the 12345"
    counts = {
        pre: len(
            load_text_assets(save_gguf(tmp_path / f"{pre}.gguf", pre=pre))
            .tokenizer.encode(text)
            .ids
        )
        for pre in ("gpt-2", "smollm", "llama-bpe")
    }
    assert counts["smollm"] > counts["llama-bpe"] >= counts["gpt-2"]


def test_unknown_gguf_vocabularies_are_refused(tmp_path: Path):
    with pytest.raises(ModelError, match="chameleon"):
        load_text_assets(save_gguf(tmp_path / "a.gguf", pre="chameleon"))
    writer = gguf.GGUFWriter(tmp_path / "b.gguf", "llama")
    writer.add_tokenizer_model("rwkv")
    with pytest.raises(ModelError, match="rwkv"):
        load_text_assets(finish(writer, tmp_path / "b.gguf"))


def test_a_cut_gguf_file_is_refused(tmp_path: Path):
    path = save_gguf(tmp_path / "a.gguf")
    content = path.read_bytes()
    for length in (0, 3, 20, 200, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match="GGUF"):
            load_text_assets(path)


def test_a_damaged_gguf_vocabulary_loads_or_is_refused(tmp_path: Path):
    path = save_gguf(tmp_path / "a.gguf")
    whole, generator = path.read_bytes(), random.Random(0)
    num_refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(whole))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            load_text_assets(path)
        except ModelError:
            num_refused += 1
    assert num_refused > 20, "most damage shows"


def test_endlessly_nested_metadata_is_refused(tmp_path: Path):
    path = tmp_path / "a.gguf"
    key = struct.pack("<Q1sI", 1, b"k", 9)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IQ", 9, 1) * 5000)
    with pytest.raises(ModelError, match="not a readable GGUF file"):
        load_text_assets(path)


def test_metadata_equals_what_the_gguf_package_reads(tmp_path: Path):
    path = save_gguf(tmp_path / "a.gguf", nested=[1, 2, 3], ratio=0.5, flag=True, name="é")
    fields = gguf.GGUFReader(path).fields
    ours = read_gguf_metadata(path)
    theirs = {key: f.contents() for key, f in fields.items() if not key.startswith("GGUF.")}
    assert ours == theirs


# -- SentencePiece vocabularies ----------------------------------------------------------------

PIECES = {
    "▁": -5.0, "a": -6.0, "b": -7.0, "c": -8.0, "ab": -2.0, "bc": -1.0, "abc": -3.0, "▁a": -1.5,
    "▁ab": -4.0, "ca": -0.5, "cab": -9.0, "aa": -2.5, "aaa": -0.1,
}  # fmt: skip


def save_sentence_piece(path: Path) -> Path:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *PIECES]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + list(PIECES.values()))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(PIECES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return finish(writer, path)


def best_scored_merges(text: str) -> list[str]:
    """SentencePiece's own rule: join the neighbours that score best together, leftmost first."""
    pieces = list("▁" + text.replace(" ", "▁")) if text else []
    while True:
        joined = [
            (PIECES[left + right], -index)
            for index, (left, right) in enumerate(pairwise(pieces))
            if left + right in PIECES
        ]
        if not joined:
            return pieces
        index = -max(joined)[1]
        pieces[index : index + 2] = [pieces[index] + pieces[index + 1]]


def test_sentence_piece_merges_follow_the_scores(tmp_path: Path):
    assets = load_text_assets(save_sentence_piece(tmp_path / "a.gguf"))

    @given(st.text("abc ", min_size=1, max_size=12))
    def check(text: str) -> None:
        encoded = assets.tokenizer.encode(text, add_special_tokens=False)
        assert encoded.tokens == best_scored_merges(text)
        assert assets.tokenizer.decode(encoded.ids) == text

    check()


def test_sentence_piece_adds_bos_and_falls_back_to_bytes(tmp_path: Path):
    assets = load_text_assets(save_sentence_piece(tmp_path / "a.gguf"))
    assert assets.tokenizer.encode("é").tokens == ["<s>", "▁", "<0xC3>", "<0xA9>"]
