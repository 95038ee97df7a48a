"""The environment variables okibi reads."""

from pathlib import Path

import pytest

from okibi.core import env


@pytest.fixture
def _clean(monkeypatch):
    for name in ("OKIBI_CACHE_DIR", "XDG_CACHE_HOME", "OKIBI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ember")


@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "/home/ember/.cache/okibi"),
        ({"XDG_CACHE_HOME": "/var/cache/me"}, "/var/cache/me/okibi"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/ember/.cache/okibi"),
        ({"OKIBI_CACHE_DIR": "/big/disk", "XDG_CACHE_HOME": "/var"}, "/big/disk"),
        ({"OKIBI_CACHE_DIR": "~/models"}, "/home/ember/models"),
    ],
)
def test_cache_dir(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert env.cache_dir() == Path(expected)


@pytest.mark.usefixtures("_clean")
def test_api_key_is_none_when_unset_or_empty(monkeypatch):
    assert env.api_key() is None
    monkeypatch.setenv("OKIBI_API_KEY", "")
    assert env.api_key() is None
    monkeypatch.setenv("OKIBI_API_KEY", "sesame")
    assert env.api_key() == "sesame"


def test_child_environment_changes_only_the_child(monkeypatch):
    monkeypatch.setenv("OKIBI_PROBE", "parent")
    assert env.child_environment(OKIBI_PROBE="child")["OKIBI_PROBE"] == "child"
    assert env.child_environment()["OKIBI_PROBE"] == "parent"


def test_threads_sleep_soon_unless_the_user_says_otherwise(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    assert 0 < int(env.compute_environment()["GOMP_SPINCOUNT"]) < 100_000
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert "GOMP_SPINCOUNT" not in env.compute_environment()
