"""Runs the commands of a set-up: shows what runs, logs all output, explains a failure.

A folder is finished when its stamp says what it was made from; anything else in its place is an
interrupted or an older set-up and is made anew.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from okibi.core.clock import Clock
from okibi.core.env import child_environment
from okibi.core.errors import OkibiError

_STAMP = "okibi-ready"
_SHOWN_CHARS = 90
_LINES_OF_A_FAILURE = 8


class SetupError(OkibiError):
    """A peer could not be set up; the message names the step and its log."""


class SetupSteps:
    """Runs steps one after another, with one log."""

    def __init__(self, log: Path, console: Console, clock: Clock) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._console = console
        self._clock = clock

    def make_folder(self, folder: Path, made_from: str, make: Callable[[], None]) -> None:
        """Have `make` fill `folder`, unless it is there and was made from the same."""
        stamp = folder / _STAMP
        if stamp.exists() and stamp.read_text() == made_from:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make()
        stamp.write_text(made_from)

    def run(
        self,
        title: str,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command, `environment` on top of this process's. Raises SetupError if it fails."""
        if not self.try_run(title, command, cwd=cwd, environment=environment):
            tail = self._log.read_text(errors="replace").splitlines()[-_LINES_OF_A_FAILURE:]
            raise SetupError("\n".join([f"{title} failed; see {self._log}", *tail]))

    def try_run(
        self,
        title: str,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> bool:
        """Run a command; whether it succeeded."""
        started_s = self._clock.now()
        words = [str(word) for word in command]
        with self._log.open("a") as log, self._console.status(title) as status:
            log.write(f"\n== {title}\n$ {' '.join(words)}\n")
            with subprocess.Popen(
                words,
                cwd=cwd,
                env=child_environment(**(environment or {})),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    status.update(f"{title}: [dim]{escape(line.strip()[:_SHOWN_CHARS])}[/dim]")
        succeeded = process.returncode == 0
        verdict = "done" if succeeded else f"exit code {process.returncode}"
        self._console.print(
            f"{title}: {verdict} in {self._clock.now() - started_s:.0f} s", highlight=False
        )
        return succeeded
