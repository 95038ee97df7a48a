"""Rules that keep runs repeatable: no iteration over sets in decisions, no unseeded randomness."""

import ast
from collections.abc import Iterator

import pytest

from tests.arch.sources import DECISION_PARTS, package_sources, sources_of_tests

ORDER_FREE = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
"""Calls whose result does not depend on the order of what they consume."""

SEEDED = {"Random", "SystemRandom"}


def _target_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _is_set(node: ast.expr, set_names: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return _is_set(node.left, set_names) or _is_set(node.right, set_names)
    return _target_name(node) in set_names


def _names_of_sets(tree: ast.AST) -> set[str]:
    """Names and attributes that a file binds to a set or annotates as one."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_set(node.value, set()):
            names |= {name for target in node.targets if (name := _target_name(target))}
        elif isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            names.add(_target_name(node.target) or "")
        elif isinstance(node, ast.arg) and node.annotation and _is_set_type(node.annotation):
            names.add(node.arg)
    return names


def _is_set_type(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).startswith(("set[", "frozenset["))


def set_iterations(tree: ast.AST) -> Iterator[int]:
    """Lines that visit the members of a set in its own order."""
    names = _names_of_sets(tree)
    order_free = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _target_name(node.func) in ORDER_FREE
        for argument in node.args
    }
    for node in ast.walk(tree):
        if id(node) not in order_free and any(_is_set(it, names) for it in _iterables(node)):
            yield getattr(node, "lineno", 0)


def _iterables(node: ast.AST) -> list[ast.expr]:
    """What a node visits member by member, in order."""
    if isinstance(node, ast.For):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Call) and _target_name(node.func) in ("list", "tuple", "iter"):
        return node.args
    return []


def test_decision_code_never_visits_a_set_in_its_own_order():
    found = [
        f"{source.name}:{line}"
        for source in package_sources()
        if source.part in DECISION_PARTS
        for line in set_iterations(source.tree)
    ]
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1, 2}: pass",
        "waiting = set()\nfor x in waiting: pass",
        "def f(self, b: set[int]):\n  self.s: set[int] = b\n  return [x for x in self.s]",
        "def f(b: frozenset[int]):\n  return tuple(b)",
        "a = {1}\nb = list(a - {2})",
    ],
)
def test_set_iteration_is_found(code):
    assert list(set_iterations(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    ["a = {1}\nfor x in sorted(a): pass", "a = {1}\nn = sum(x for x in a)", "for x in [1]: pass"],
)
def test_ordered_iteration_is_not_found(code):
    assert not list(set_iterations(ast.parse(code)))


def unseeded_draws(tree: ast.AST) -> Iterator[int]:
    """Lines that use the functions of the module `random`, which share one hidden state."""
    nodes = list(ast.walk(tree))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "random":
            names = {node.attr} if "random" in imported else SEEDED
        else:
            continue
        if not names <= SEEDED:
            yield node.lineno


def test_tests_draw_from_seeded_generators():
    found = [
        f"{source.name}:{line}"
        for source in sources_of_tests()
        for line in unseeded_draws(source.tree)
    ]
    assert not found


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import random\nrandom.shuffle([])", [2]),
        ("from random import choice", [1]),
        ("import random\nrandom.Random(0).shuffle([])", []),
        ("from random import Random\ndef f(random: Random): random.shuffle([])", []),
    ],
)
def test_unseeded_draws_are_told_from_seeded_ones(code, lines):
    assert list(unseeded_draws(ast.parse(code))) == lines
