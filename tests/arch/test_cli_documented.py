"""Every command and option has a help text, and docs/cli.md shows them as they are."""

from collections.abc import Iterator

import typer
from typer.core import TyperGroup

from okibi.cli import app
from scripts import cli_docs


def parameters(command: object, words: str) -> Iterator[tuple[str, str | None]]:
    """(command and parameter name, help) of everything below a command."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from parameters(below, f"{words} {name}")
        return
    yield words, getattr(command, "help", None)
    for each in getattr(command, "params", []):
        yield f"{words} {each.name}", each.help


def test_every_parameter_has_a_help_text():
    found = dict(parameters(typer.main.get_command(app), "okibi"))
    assert "okibi test lane" in found
    assert [name for name, text in found.items() if not text] == []


def test_the_page_is_up_to_date():
    assert cli_docs.PAGE.read_text() == cli_docs.page(), "run `make docs`"
