"""The command line's own promises: one-line errors, and a start that loads nothing heavy."""

import subprocess
import sys

import pytest

from okibi import __version__, cli
from okibi.core.errors import ConfigError


def run_cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "okibi", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_names_the_hashing_in_use():
    result = run_cli("version")
    assert result.returncode == 0
    assert result.stdout.startswith(f"okibi {__version__} (")
    assert "hashing" in result.stdout


def test_an_unknown_command_is_a_usage_error():
    result = run_cli("kindle")
    assert result.returncode == 2
    assert "kindle" in result.stderr


def test_an_error_for_a_person_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def refuse() -> None:
        raise ConfigError("--max-num-seqs must be positive")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "okibi: --max-num-seqs must be positive\n"


def test_the_command_line_starts_without_torch():
    probe = "import sys, okibi.cli; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
