from pathlib import Path

import pytest

from okibi.bench.replay_options import ReplayOptions
from okibi.core.errors import ConfigError


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"timeout": 0.0}, "--timeout"),
        ({"timeout": float("nan")}, "--timeout"),
        ({"grace": -1.0}, "--grace"),
    ],
)
def test_impossible_options_name_their_flag(change, flag):
    with pytest.raises(ConfigError, match=flag):
        ReplayOptions(traces=Path("traces"), **change)
