"""What one choice yields: text, log-probabilities and counts, in step with one another."""

from hypothesis import given
from hypothesis import strategies as st

from okibi.core.output import TokenLogprobs
from okibi.server.prompt.output_text import OutputText
from okibi.server.prompt.token_bytes import TokenBytes
from tests.support.tiny_text import END_ID, VOCAB_SIZE, make_tokenizer

TOKENIZER = make_tokenizer()
BYTES = TokenBytes(TOKENIZER)


def output(stops: list[str] | None = None, min_tokens: int = 0) -> OutputText:
    return OutputText(
        BYTES, stops=stops or [], min_tokens=min_tokens, end_ids=frozenset({END_ID, 70})
    )


def logprobs(token_ids: list[int]) -> list[TokenLogprobs]:
    return [TokenLogprobs(token_id=token_id, logprob=-1.0) for token_id in token_ids]


IDS = st.lists(st.integers(3, VOCAB_SIZE - 1), min_size=1, max_size=25)
STOPS = st.lists(st.sampled_from(["e", "th", "he c", "\n", "ab"]), max_size=2)


@given(IDS, STOPS, st.lists(st.integers(1, 5), min_size=25, max_size=25))
def test_cutting_tokens_into_steps_changes_nothing(
    token_ids: list[int], stops: list[str], sizes: list[int]
):
    def run(sizes: list[int]) -> tuple[str, list[tuple[int, int]], int, bool]:
        choice, text, placed, start = output(stops), "", [], 0
        for size in sizes:
            part = token_ids[start : start + size]
            start += size
            if not part or choice.is_stopped:
                break
            gained = choice.push(part, logprobs(part), is_end=False)
            text += gained.text
            placed += gained.logprobs
        rest = choice.finish()
        pairs = [(p.entry.token_id, p.text_offset) for p in (*placed, *rest.logprobs)]
        return text + rest.text, pairs, choice.num_tokens, choice.is_stopped

    one_by_one = run([1] * len(token_ids))
    assert run(sizes) == one_by_one
    assert run([len(token_ids)]) == one_by_one
    text, pairs, num_tokens, is_stopped = one_by_one
    decoded = TOKENIZER.decode(token_ids)
    assert decoded.startswith(text)
    if not is_stopped:
        assert text == decoded
        assert num_tokens == len(pairs) == len(token_ids)
    assert all(offset <= len(text) for _, offset in pairs)


def test_a_token_that_ends_the_generation_is_counted_and_not_shown():
    choice = output()
    gained = choice.push([*TOKENIZER.encode("the").ids, 70], [], is_end=True)
    assert gained.text + choice.finish().text == "the"
    assert choice.num_tokens == len(TOKENIZER.encode("the").ids) + 1


def test_the_same_token_inside_a_text_is_shown():
    choice = output()
    shown = TOKENIZER.decode([70])
    assert choice.push([70, 70], [], is_end=True).text == shown


def test_stops_do_not_count_before_min_tokens():
    ids = TOKENIZER.encode("ABABAB", add_special_tokens=False).ids
    choice = output(["B"], min_tokens=3)
    text = choice.push(ids, [], is_end=False).text
    assert (text, choice.is_stopped, choice.num_tokens) == ("ABA", True, 4)
