"""`okibi test`: which stages a lane has, and that a failure is never lost."""

import sys
import tomllib

import pytest
import typer

from okibi.core.errors import ConfigError
from okibi.launch import checks
from okibi.launch.checks import Lane, StageName


def test_the_default_lane_runs_every_stage_and_no_marked_test():
    commands = checks.stage_commands(Lane.DEFAULT, [])
    assert list(commands) == list(StageName)
    selection = commands[StageName.PYTEST][commands[StageName.PYTEST].index("-m", 2) + 1]
    assert selection == "not (harness or gpu)"


def test_another_lane_runs_only_its_own_tests():
    commands = checks.stage_commands(Lane.HARNESS, ["-k", "replay"])
    assert list(commands) == [StageName.PYTEST]
    assert commands[StageName.PYTEST][-4:] == ["-m", "harness", "-k", "replay"]


def test_every_lane_is_a_declared_marker():
    text = (checks.clone_root() / "pyproject.toml").read_text()
    markers = tomllib.loads(text)["tool"]["pytest"]["ini_options"]["markers"]
    declared = {marker.split(":")[0] for marker in markers}
    assert declared == {lane.value for lane in Lane if lane is not Lane.DEFAULT}


def test_a_failed_stage_keeps_its_exit_code_and_shows_in_the_report(tmp_path, capsys):
    good = checks.run_stage("good", [sys.executable, "-c", "pass"], tmp_path)
    bad = checks.run_stage("bad", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    assert (good.exit_code, bad.exit_code) == (0, 3)
    checks.report([good, bad])
    assert "bad" in capsys.readouterr().out.split("FAILED (exit code 3)")[0].splitlines()[-1]


def test_a_missing_tool_fails_instead_of_being_skipped(tmp_path):
    result = checks.run_stage("lint", [str(tmp_path / "no-such-tool")], tmp_path)
    assert result.exit_code == 127


def test_one_failed_stage_fails_the_whole_run():
    with pytest.raises(typer.Exit) as failure:
        checks.run_checks(["tests/no_such_file.py"], only=[StageName.PYTEST])
    assert failure.value.exit_code == 1


def test_a_stage_that_the_lane_lacks_is_refused():
    with pytest.raises(ConfigError, match="--only lint: lane gpu"):
        checks.run_checks(lane=Lane.GPU, only=[StageName.LINT])
