from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from okibi.core.command_options import flag_name, option_command


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    folder: Annotated[Path, typer.Argument(help="Where.")]
    count: Annotated[int, typer.Option(help="How many.")] = 3
    file: Annotated[Path | None, typer.Option("--json", help="A file.")] = None
    fast: Annotated[bool, typer.Option(help="Hurry.")] = True


def run(*words: str) -> tuple[list[Options], str]:
    given: list[Options] = []
    app = typer.Typer()

    def act(options: Options) -> None:
        """Do it."""
        given.append(options)

    app.command()(option_command(Options, act))
    return given, CliRunner().invoke(app, words).output


def test_fields_become_parameters_with_their_defaults():
    assert run("here")[0] == [Options(folder=Path("here"))]
    assert run("here", "--count", "5", "--json", "f", "--no-fast")[0] == [
        Options(folder=Path("here"), count=5, file=Path("f"), fast=False)
    ]


def test_help_and_missing_arguments_come_from_the_fields():
    text = run("--help")[1]
    assert "How many." in text
    assert "Do it." in text
    given, text = run()
    assert given == []
    assert "folder" in text.lower()


def test_a_flag_is_named_as_typer_names_it():
    @dataclass(frozen=True, kw_only=True)
    class Named:
        max_num_seqs: Annotated[int, typer.Option()] = 1

    app = typer.Typer()
    app.command()(option_command(Named, lambda options: None))
    assert CliRunner().invoke(app, [flag_name("max_num_seqs"), "2"]).exit_code == 0
