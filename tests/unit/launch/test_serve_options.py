"""The settings of `okibi serve`: sizes, defaults, and what is refused before anything starts."""

import dataclasses
from typing import Any

import pytest
from typer.testing import CliRunner

from okibi.cli import app
from okibi.control.config import ReplicaConfig
from okibi.core.errors import ConfigError
from okibi.launch.serve_options import ServeOptions, parse_size


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1024", 1024),
        ("2GiB", 2 << 30),
        ("1.5 MiB", 3 << 19),
        ("512MB", 512_000_000),
        ("3k", 3000),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text: str, num_bytes: int):
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "much", "-1", "2XB", "GiB"])
def test_what_is_no_size(text: str):
    with pytest.raises(ConfigError, match="2GiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"port": -1}, "--port"),
        ({"max_queued_requests": -1}, "--max-queued-requests"),
        ({"max_model_len": 0}, "--max-model-len"),
        ({"block_size": 16, "prefix_match_unit": 5}, "--prefix-match-unit"),
        ({"shutdown_timeout": float("nan")}, "--shutdown-timeout"),
        ({"progress_timeout": 0.0}, "--progress-timeout"),
        ({"progress_timeout": float("nan")}, "--progress-timeout"),
    ],
)
def test_refusals_name_the_flag(change: dict[str, Any], flag: str):
    with pytest.raises(ConfigError, match=flag):
        ServeOptions(**change)


def test_defaults_are_the_replicas_own():
    options = ServeOptions()
    defaults = {f.name: f.default for f in dataclasses.fields(ReplicaConfig)}
    for ours, theirs in (
        ("max_num_seqs", "max_num_seqs"),
        ("max_num_batched_tokens", "max_num_batched_tokens"),
        ("long_prefill_token_threshold", "long_prefill_token_threshold"),
        ("scheduling_policy", "scheduling_policy"),
        ("max_queued_requests", "max_num_queued"),
        ("max_queued_tokens", "max_num_queued_tokens"),
        ("max_inflight_steps", "max_inflight_steps"),
    ):
        assert getattr(options, ours) == defaults[theirs]


def test_help_shows_every_flag():
    text = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    for field in dataclasses.fields(ServeOptions):
        if field.name != "model":
            assert "--" + field.name.replace("_", "-") in text


# A policy that does not exist ends every start below before any model is looked for.
NO_START = ("serve", "--port", "0", "--scheduling-policy", "none")


@pytest.mark.parametrize("key", ["", "schlüssel", "two\nlines"])
def test_a_key_that_protects_nothing_is_refused(key: str):
    result = CliRunner().invoke(app, [*NO_START, "--api-key", key])
    assert result.exit_code != 0
    assert "--api-key must" in result.output + str(result.exception)


def test_an_open_door_without_a_key_is_pointed_out():
    opened = CliRunner().invoke(app, [*NO_START, "--host", "0.0.0.0"])
    assert "set --api-key" in opened.output
    assert "set --api-key" not in CliRunner().invoke(app, NO_START).output
