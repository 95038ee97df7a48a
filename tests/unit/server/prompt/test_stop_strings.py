"""Stop strings end a text where they are first complete, however the text is cut."""

from hypothesis import given
from hypothesis import strategies as st

from okibi.server.prompt.stop_strings import StopStrings


def feed(stops: list[str], pieces: list[str]) -> tuple[str, bool, list[str]]:
    watch = StopStrings(stops)
    out = [watch.push(piece) for piece in pieces]
    stopped = watch.is_stopped
    if not stopped:
        out.append(watch.release())
    return "".join(out), stopped, out


def reference(stops: list[str], text: str) -> tuple[str, bool]:
    """Character by character: the first stop that is complete cuts, the longest of those."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


STOPS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)
PIECES = st.lists(st.text("abc", max_size=3), max_size=12)


@given(STOPS, PIECES)
def test_cutting_does_not_depend_on_the_pieces(stops: list[str], pieces: list[str]):
    text, stopped, _ = feed(stops, pieces)
    assert (text, stopped) == reference(stops, "".join(pieces))


@given(STOPS, PIECES)
def test_what_went_out_is_never_taken_back(stops: list[str], pieces: list[str]):
    final, _ = reference(stops, "".join(pieces))
    _, _, out = feed(stops, pieces)
    for count in range(len(out) + 1):
        assert final.startswith("".join(out[:count]))


def test_a_stop_across_three_pieces_leaves_no_trace():
    _, stopped, out = feed(["DEFGHIJ"], ["AB", "CDE", "FG", "HIJKL"])
    assert stopped
    assert out == ["AB", "C", "", ""]


def test_a_stop_at_the_very_start():
    assert feed(["AB"], ["A", "BC"])[:2] == ("", True)


def test_what_only_looked_like_a_stop_is_released():
    assert feed(["DEFGHIJ"], ["ABC", "DEF", "x"])[2] == ["ABC", "", "DEFx", ""]


def test_a_held_end_is_released_when_nothing_follows():
    assert feed(["DEFG"], ["ABCDEF"])[:2] == ("ABCDEF", False)


def test_of_overlapping_stops_the_first_complete_wins():
    assert feed(["xabc", "ab"], ["xabc"])[:2] == ("x", True)
    assert feed(["xab", "ab"], ["xab"])[:2] == ("", True)


def test_nothing_comes_after_a_stop():
    watch = StopStrings(["b"])
    assert watch.push("abc") == "a"
    assert watch.push("def") == ""
