"""What the architecture tests look at: the files of the package and of the tests, parsed once."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "okibi"
DECISION_PARTS = ("kvcache", "control", "sim")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def num_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def part(self) -> str:
        """The part of the package it belongs to: core, kvcache, ..."""
        return self.path.relative_to(PACKAGE).parts[0]


def _read(folder: Path) -> tuple[Source, ...]:
    texts = {path: path.read_text() for path in sorted(folder.rglob("*.py"))}
    return tuple(Source(path, text, ast.parse(text)) for path, text in texts.items())


@cache
def package_sources() -> tuple[Source, ...]:
    return _read(PACKAGE)


@cache
def sources_of_tests() -> tuple[Source, ...]:
    return _read(ROOT / "tests")


def imported_modules(tree: ast.AST) -> list[tuple[str, int]]:
    """Every imported module with its line, imports inside functions included."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", node.lineno))
    return found
