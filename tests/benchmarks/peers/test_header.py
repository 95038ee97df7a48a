"""Folders of runs: new, taken, to be resumed."""

import pytest

from benchmarks.peers.header import open_run
from benchmarks.peers.options import PeerOptions
from benchmarks.peers.runner import RECORDS
from okibi.core.clock import VirtualClock
from okibi.core.errors import ConfigError

CLOCK = VirtualClock(1_000_000.0)


def test_a_run_is_resumed_with_its_own_nonce_and_whole_lines(tmp_path):
    out = tmp_path / "run"
    first = open_run(PeerOptions(out=out, quick=True), CLOCK)
    assert first.started == "1970-01-12T13:46:40+00:00"
    (out / RECORDS).write_bytes(b'{"round":1,"var')
    assert open_run(PeerOptions(out=out, quick=True, resume=True), CLOCK) == first
    assert (out / RECORDS).read_bytes() == b""
    other = open_run(PeerOptions(out=tmp_path / "other", quick=True), CLOCK)
    assert other.nonce != first.nonce


def test_nothing_is_overwritten_or_mixed(tmp_path):
    with pytest.raises(ConfigError, match="holds no run"):
        open_run(PeerOptions(out=tmp_path, resume=True), CLOCK)
    open_run(PeerOptions(out=tmp_path), CLOCK)
    with pytest.raises(ConfigError, match="add --resume"):
        open_run(PeerOptions(out=tmp_path), CLOCK)
    with pytest.raises(ConfigError, match="full run of smollm2"):
        open_run(PeerOptions(out=tmp_path, resume=True, quick=True), CLOCK)
