import asyncio
from collections.abc import Collection

from tokenizers import Tokenizer, models, pre_tokenizers

from okibi.bench.text.counting import FileTokenCounter
from okibi.bench.text.vocabulary import assumed_vocabulary, measured_vocabulary
from okibi.bench.text.words import CANDIDATE_WORDS


class CountingByRule:
    """A tokenizer that knows some words whole, others only after a space, and splits the rest."""

    def __init__(self, broken: Collection[str] = (), only_spaced: Collection[str] = ()):
        self.broken = broken
        self.only_spaced = only_spaced
        self.num_calls = 0

    async def count(self, text: str) -> int:
        self.num_calls += 1
        total = 0
        for number, line in enumerate(text.split("\n")):
            total += number > 0
            for position, word in enumerate(line.split(" ")):
                whole = word not in self.broken and (position or word not in self.only_spaced)
                total += 1 if whole else 2
        return total


def test_a_tokenizer_that_knows_all_words_needs_few_calls():
    counter = CountingByRule()
    found = asyncio.run(measured_vocabulary(counter, "rule"))
    assert found.words == CANDIDATE_WORDS
    assert (found.source, found.tokens_per_word) == ("exact (rule)", 1.0)
    assert counter.num_calls < 64


def test_words_of_several_tokens_are_left_out_wherever_they_split():
    broken, only_spaced = set(CANDIDATE_WORDS[::7]), set(CANDIDATE_WORDS[3::50])
    counter = CountingByRule(broken, only_spaced)
    found = asyncio.run(measured_vocabulary(counter, "rule"))
    assert set(found.words) == set(CANDIDATE_WORDS) - broken - only_spaced


def test_a_tokenizer_of_letters_gives_a_mean(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    counter = FileTokenCounter(tmp_path)
    found = asyncio.run(measured_vocabulary(counter, "letters"))
    assert found.source == "mean (letters)"
    assert found.tokens_per_word == asyncio.run(counter.count(" ".join(CANDIDATE_WORDS))) / len(
        CANDIDATE_WORDS
    )
    assert found.tokens_per_word > 3


def test_a_hopeless_tokenizer_is_not_asked_about_every_word():
    counter = CountingByRule(broken=CANDIDATE_WORDS)
    assert asyncio.run(measured_vocabulary(counter, "rule")).tokens_per_word == 2.0
    assert counter.num_calls < 300


def test_without_a_tokenizer_words_are_assumed_to_be_tokens():
    assert assumed_vocabulary().source == "assumed"


def test_candidate_words_are_plain_and_different():
    assert len(set(CANDIDATE_WORDS)) == len(CANDIDATE_WORDS) > 800
    assert all(word.isascii() and word.isalpha() and word.islower() for word in CANDIDATE_WORDS)
