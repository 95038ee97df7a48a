"""One line of JSON for each measured case, and the run they belong to.

A line is written when its case has ended, so a killed run loses one case at most and can be
resumed. Must never rewrite a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.peers.rounds import Key
from okibi.core.errors import ConfigError

START_UP = "start-up"
"""The case of a server's start; a variant may have several in one round."""


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one case gave on one server.

    `values` holds one number a repeat. Memory is that of the server's process tree after the case:
    proportional set size, and the sum of each process's highest resident set. `foreign_cpu` is the
    share of the machine that neither the server nor this client used. `problem` says why values are
    missing or doubtful.
    """

    round: int
    variant: str
    case: str
    values: dict[str, list[float]] = {}
    pss_bytes: int | None = None
    peak_rss_bytes: int | None = None
    foreign_cpu: float = 0.0
    problem: str | None = None

    @property
    def key(self) -> Key:
        return (self.round, self.variant, self.case)


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What all records of a folder share. `nonce` makes prompts that no earlier run has sent."""

    model: str
    quick: bool
    nonce: str
    started: str
    okibi: str
    machine: dict[str, str]
    versions: dict[str, str]

    def check_same_run(self, model: str, *, quick: bool) -> None:
        """Raise ConfigError unless a resumed run would measure the same thing."""
        if (self.model, self.quick) != (model, quick):
            kind = "quick" if self.quick else "full"
            raise ConfigError(
                f"--resume: that folder holds a {kind} run of {self.model}; give the same "
                "--model and --quick, or another --out"
            )


def append_record(path: Path, record: CaseRecord) -> None:
    """Add one line."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(record) + b"\n")


def read_records(path: Path) -> list[CaseRecord]:
    """All records, in order of their end; none if there is no file."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=CaseRecord) for line in lines]


def drop_unfinished_line(path: Path) -> None:
    """Cut off what a killed run wrote of its last line."""
    if path.exists():
        content = path.read_bytes()
        path.write_bytes(content[: content.rfind(b"\n") + 1])


def open_problems(records: Iterable[CaseRecord]) -> list[CaseRecord]:
    """Records with a problem, less those whose case was measured again since."""
    latest = {record.key: record for record in records}
    return [record for record in latest.values() if record.problem]


def done_keys(records: Iterable[CaseRecord]) -> set[Key]:
    """Cases that need not be measured again."""
    return {record.key for record in records if record.values}
