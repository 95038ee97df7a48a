"""Import rules beyond the layers that import-linter holds (see pyproject.toml)."""

import sys

from tests.arch.sources import PACKAGE, ROOT, imported_modules, package_sources, sources_of_tests

CORE_MAY_IMPORT = {"okibi._native"}
"""Compiled and optional; core falls back to its Python twin."""


def test_core_needs_only_the_standard_library():
    core = [source for source in package_sources() if source.part == "core"]
    assert core
    foreign = [
        f"{source.name}:{line} {module}"
        for source in core
        for module, line in imported_modules(source.tree)
        if module.split(".")[0] not in sys.stdlib_module_names
        and not module.startswith("okibi.core")
        and module not in CORE_MAY_IMPORT
    ]
    assert not foreign


def test_only_the_execution_plane_and_its_composition_root_touch_torch():
    homes = ("execution", "launch")
    strangers = [
        f"{source.name}:{line}"
        for source in package_sources()
        for module, line in imported_modules(source.tree)
        if module.split(".")[0] in ("torch", "triton") and source.part not in homes
    ]
    assert not strangers


def test_the_package_imports_no_test_only_dependency():
    test_only = {"transformers", "openai", "pytest", "hypothesis", "httpx", "tests"}
    found = [
        f"{source.name}:{line} {module}"
        for source in package_sources()
        for module, line in imported_modules(source.tree)
        if module.split(".")[0] in test_only
    ]
    assert not found


def test_a_unit_test_mirrors_the_path_of_its_module():
    unit = ROOT / "tests" / "unit"
    strays: list[str] = []
    for source in sources_of_tests():
        if not source.path.is_relative_to(unit) or not source.path.name.startswith("test_"):
            continue
        relative = source.path.relative_to(unit)
        module = PACKAGE / relative.parent / relative.name.removeprefix("test_")
        if not module.exists() and not module.with_suffix("").is_dir():
            strays.append(source.name)
    assert not strays


def test_nothing_is_unpickled():
    found = [
        f"{source.name}:{line} {module}"
        for source in package_sources()
        for module, line in imported_modules(source.tree)
        if module.split(".")[0] in ("pickle", "dill", "cloudpickle", "marshal", "shelve")
    ]
    assert not found
