"""`okibi test`: every check that CI runs, one stage after another.

Owns the list of stages and how they are reported, nothing about what they check: rules live in
pyproject.toml and tests/. A stage is a child process, so a crash in one never hides another.
Needs a clone with the development tools; an installed package has no tests to run.
"""

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from okibi.core.clock import WallClock
from okibi.core.env import compute_environment
from okibi.core.errors import ConfigError


class Lane(StrEnum):
    """What `okibi test --lane` runs; each but the first is a pytest marker."""

    DEFAULT = "default"
    HARNESS = "harness"
    GPU = "gpu"


class StageName(StrEnum):
    """The stages of the default lane, in the order they run."""

    FORMAT = "format"
    LINT = "lint"
    TYPES = "types"
    IMPORTS = "imports"
    PYTEST = "pytest"


@dataclass(frozen=True, slots=True)
class StageResult:
    """How one stage ended."""

    name: str
    exit_code: int
    duration_s: float


def stage_commands(lane: Lane, pytest_args: list[str]) -> dict[StageName, list[str]]:
    """The commands of a lane. Only the default lane has static checks."""
    python = [sys.executable, "-m"]
    marked = [each.value for each in Lane if each is not Lane.DEFAULT]
    selection = f"not ({' or '.join(marked)})" if lane is Lane.DEFAULT else lane.value
    pytest = {StageName.PYTEST: [*python, "pytest", "-m", selection, *pytest_args]}
    if lane is not Lane.DEFAULT:
        return pytest
    lint_imports = Path(sysconfig.get_path("scripts")) / "lint-imports"
    static = {
        StageName.FORMAT: [*python, "ruff", "format", "--check", "."],
        StageName.LINT: [*python, "ruff", "check", "."],
        StageName.TYPES: [*python, "pyright"],
        StageName.IMPORTS: [str(lint_imports)],
    }
    return static | pytest


def clone_root() -> Path:
    """The folder of the clone this package runs from.

    Raises:
        ConfigError: okibi runs from an installed package.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "pyproject.toml").is_file() or not (root / "tests").is_dir():
        raise ConfigError("`okibi test` needs a clone of okibi; run ./okibi test there")
    return root


def run_stage(name: str, command: list[str], root: Path) -> StageResult:
    """Run one stage, its output going straight to the terminal."""
    clock = WallClock()
    start = clock.now()
    typer.secho(f"\n== {name}", bold=True)
    sys.stdout.flush()
    try:
        exit_code = subprocess.run(
            command, cwd=root, env=compute_environment(), check=False
        ).returncode
    except FileNotFoundError:
        typer.secho(f"{command[0]} is not installed; run ./okibi test", fg="red", err=True)
        exit_code = 127
    return StageResult(name, exit_code, clock.now() - start)


def report(results: list[StageResult]) -> None:
    """Print one line a stage."""
    typer.secho("\n== summary", bold=True)
    for result in results:
        verdict = "ok" if result.exit_code == 0 else f"FAILED (exit code {result.exit_code})"
        typer.echo(f"{result.name:<8} {result.duration_s:7.1f} s  {verdict}")


def run_checks(
    pytest_args: Annotated[list[str] | None, typer.Argument(help="Passed on to pytest.")] = None,
    *,
    lane: Annotated[Lane, typer.Option(help="Which tests to run.")] = Lane.DEFAULT,
    only: Annotated[list[StageName] | None, typer.Option(help="Run only these stages.")] = None,
) -> None:
    """Run every check that CI runs. Give pytest its own options after `--`."""
    root = clone_root()
    commands = stage_commands(lane, pytest_args or [])
    if unknown := [name for name in only or [] if name not in commands]:
        raise ConfigError(f"--only {unknown[0]}: lane {lane} has no such stage")
    chosen = {name: command for name, command in commands.items() if name in (only or commands)}
    results = [run_stage(name, command, root) for name, command in chosen.items()]
    report(results)
    if any(result.exit_code for result in results):
        raise typer.Exit(1)
