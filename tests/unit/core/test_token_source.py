"""Token sources: digests and prefixes, against hashing from scratch."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from okibi.core.chain_hash import DIGEST_BYTES, chain_digests, root_digest
from okibi.core.token_source import PackedTokens, SegmentTokens, TokenSequence

ROOT = root_digest("model", "")
ids_lists = st.lists(st.integers(0, 2**31 - 1), max_size=60)


def from_scratch(ids: list[int], unit: int) -> bytes:
    complete = len(ids) // unit * unit
    return chain_digests(ROOT, array("i", ids[:complete]).tobytes(), unit * 4)


@given(ids_lists, st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=6), st.integers(1, 8))
def test_digests_of_a_growing_sequence_equal_hashing_all_at_once(
    prompt: list[int], bursts: list[list[int]], unit: int
) -> None:
    sequence = TokenSequence(PackedTokens.of(prompt), unit=unit, root=ROOT)
    ids = list(prompt)
    for burst in bursts:
        for token in burst:
            sequence.append(token)
        ids += burst
        assert bytes(sequence.digests()) == from_scratch(ids, unit)


@given(ids_lists, ids_lists, st.integers(1, 8))
def test_adopted_digests_change_nothing(prompt: list[int], more: list[int], unit: int) -> None:
    known = from_scratch(prompt, unit)
    sequence = TokenSequence(PackedTokens.of(prompt + more), unit=unit, root=ROOT)
    sequence.adopt_digests(known)
    assert bytes(sequence.digests()) == from_scratch(prompt + more, unit)


@given(ids_lists, ids_lists, st.integers(0, 70), st.integers(0, 70))
def test_ids_span_prompt_and_output(
    prompt: list[int], output: list[int], start: int, length: int
) -> None:
    sequence = TokenSequence(PackedTokens.of(prompt), unit=4, root=ROOT)
    for token in output:
        sequence.append(token)
    found = sequence.ids(start, start + length)
    assert found == array("i", (prompt + output)[start : start + length]).tobytes()


@given(ids_lists, ids_lists, ids_lists)
def test_common_prefix_counts_equal_leading_tokens(
    shared: list[int], left: list[int], right: list[int]
) -> None:
    expected = len(shared)
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        expected += 1
    found = PackedTokens.of(shared + left).common_prefix(PackedTokens.of(shared + right))
    assert found == expected


def test_common_prefix_of_long_sources_is_exact() -> None:
    left = array("i", range(100_000))
    right = array("i", left)
    right[70_001] = -1
    found = PackedTokens(left.tobytes()).common_prefix(PackedTokens(right.tobytes()))
    assert found == 70_001


segments = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=8)


def expand(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(content, offset) for content, length in pieces for offset in range(length)]


@given(segments, segments, st.integers(1, 5))
def test_segment_digests_agree_exactly_as_far_as_the_content(
    left: list[tuple[int, int]], right: list[tuple[int, int]], unit: int
) -> None:
    a, b = SegmentTokens(left), SegmentTokens(right)
    expected = 0
    for x, y in zip(expand(left), expand(right), strict=False):
        if x != y:
            break
        expected += 1
    assert a.common_prefix(b) == expected
    digests = [bytes(TokenSequence(source, unit=unit, root=ROOT).digests()) for source in (a, b)]
    equal_units = 0
    for i in range(min(map(len, digests)) // DIGEST_BYTES):
        at = slice(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES)
        if digests[0][at] != digests[1][at]:
            break
        equal_units += 1
    assert equal_units == expected // unit


def test_a_prompt_of_segments_has_no_ids_but_its_output_has() -> None:
    sequence = TokenSequence(SegmentTokens([(1, 10)]), unit=4, root=ROOT)
    sequence.append(7)
    assert sequence.ids(0, 10) is None
    assert sequence.ids(10, 11) == array("i", [7]).tobytes()
    first = bytes(sequence.digests())
    assert len(first) == 2 * DIGEST_BYTES
    sequence.append(8)
    other = TokenSequence(SegmentTokens([(1, 10)]), unit=4, root=ROOT)
    other.append(7)
    other.append(9)
    assert sequence.digests()[: len(first)] == first
    assert sequence.digests() != other.digests()
