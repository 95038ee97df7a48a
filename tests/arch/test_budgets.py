"""Size budgets, and that nobody opts out of the ones ruff holds."""

import ast
import re

import pytest

from tests.arch.sources import Source, package_sources, sources_of_tests

MAX_FILE_LINES = 400
MAX_EXCUSED_LINES = 600
EXCUSED_FILES: dict[str, str] = {}
"""Files of 401 to 600 lines, each with the reason why it must not be split."""

MIN_DOCSTRING_LINES = 3
MAX_PROSE_LINES = 10
SMALL_MODULE_LINES = 60
"""A module this small may say what it owns in one line."""

HELD_BY_RUFF = ("C901", "PLR0913", "PLR0915", "TID251")
NOQA = re.compile(r"#\s*(?:ruff:\s*)?noqa(?P<codes>:[^#]*)?")


def all_sources() -> list[Source]:
    return [*package_sources(), *sources_of_tests()]


def prose_lines(docstring: str) -> int:
    """Lines of a docstring; an indented picture and blank lines are not counted."""
    return sum(1 for line in docstring.splitlines() if line.strip() and not line.startswith(" "))


def test_files_stay_within_their_budget():
    too_long = [
        f"{source.name}: {source.num_lines} lines"
        for source in all_sources()
        if source.num_lines
        > (MAX_EXCUSED_LINES if source.name in EXCUSED_FILES else MAX_FILE_LINES)
    ]
    assert not too_long


def test_every_excused_file_still_needs_its_excuse():
    sizes = {source.name: source.num_lines for source in all_sources()}
    assert [name for name in EXCUSED_FILES if sizes.get(name, 0) <= MAX_FILE_LINES] == []


def test_no_budget_is_waived_by_a_comment():
    waived: list[str] = []
    for source in package_sources():
        for number, line in enumerate(source.text.splitlines(), start=1):
            found = NOQA.search(line)
            if found and (not found["codes"] or any(c in found["codes"] for c in HELD_BY_RUFF)):
                waived.append(f"{source.name}:{number}")
    assert not waived


def test_modules_say_what_they_own():
    wrong: list[str] = []
    for source in package_sources():
        docstring = ast.get_docstring(source.tree) or ""
        small = source.num_lines <= SMALL_MODULE_LINES or source.path.name == "__init__.py"
        num_lines = len(docstring.splitlines())
        if num_lines < (1 if small else MIN_DOCSTRING_LINES):
            wrong.append(f"{source.name}: a docstring of {num_lines} lines")
        elif prose_lines(docstring) > MAX_PROSE_LINES:
            wrong.append(f"{source.name}: {prose_lines(docstring)} lines of prose")
    assert not wrong


@pytest.mark.parametrize(("docstring", "lines"), [("One.", 1), ("One.\n\nTwo.\n\n  [a|b]", 2)])
def test_prose_lines_leave_out_pictures(docstring, lines):
    assert prose_lines(docstring) == lines
