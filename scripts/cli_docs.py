"""Write docs/cli.md: every command and option of okibi, from the command line itself.

`make docs` runs it; tests/arch holds the file equal to what this prints, so that no option exists
without a line of documentation and a changed one shows in review.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from okibi.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEADER = """# Command line

Every command and option, as `okibi --help` knows them. Written by `make docs`; do not edit.
"""


def _one_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def _default(option: TyperOption) -> str:
    if option.default is None or option.default is False or callable(option.default):
        return ""
    return f" Default: `{option.default}`."


def _parameter(parameter: object) -> str:
    if isinstance(parameter, TyperOption):
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        needed = " Required." if parameter.required else _default(parameter)
        return f"- {names}: {_one_line(parameter.help)}{needed}"
    assert isinstance(parameter, TyperArgument), parameter
    return f"- `{str(parameter.name).upper()}`: {_one_line(parameter.help)}"


def sections(command: object, words: str) -> Iterator[str]:
    """The sections of a command and of those below it."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from sections(below, f"{words} {name}")
        return
    paragraphs = (getattr(command, "help", None) or "").split("\n\n")
    help_text = "\n\n".join(_one_line(paragraph) for paragraph in paragraphs)
    lines = [_parameter(each) for each in getattr(command, "params", []) if each.name != "help"]
    body = "\n".join(lines)
    yield f"## `{words}`\n\n{help_text}\n" + (f"\n{body}\n" if body else "")


def page() -> str:
    """The whole page."""
    return "\n".join([HEADER, *sections(typer.main.get_command(app), "okibi")])


if __name__ == "__main__":
    PAGE.write_text(page())
