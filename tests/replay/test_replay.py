"""The same inputs give the same plans, byte for byte, in any process."""

import subprocess
import sys
from pathlib import Path

import pytest

from okibi.core.env import child_environment
from tests.replay.recording import plans, replay
from tests.replay.workload import digest, make_recorder, record

REPOSITORY = Path(__file__).parents[2]
CASES = pytest.mark.parametrize(
    ("depth", "policy", "layout"),
    [
        (1, "fcfs", "one group"),
        (2, "fcfs", "one group"),
        (2, "priority", "one group"),
        (2, "fcfs", "several groups"),
    ],
)


@CASES
def test_a_log_replayed_into_a_fresh_replica_gives_the_same_answers(depth, policy, layout):
    recorded = record(seed=1, depth=depth, policy=policy, layout=layout)
    stats = recorded.stats()
    assert stats.counters.num_preemptions > 0, "the workload must preempt"
    assert stats.counters.prefix_hit_tokens > 1000, "the workload must hit"
    assert len(plans(recorded.log)) > 300
    fresh = make_recorder(depth, policy, layout)
    assert replay(recorded.log, fresh) == [entry.answer for entry in recorded.log]
    assert fresh.stats() == stats


def test_another_seed_gives_other_plans():
    digests = {
        digest(record(seed=seed, depth=2, policy="fcfs", layout="one group")) for seed in range(3)
    }
    assert len(digests) == 3


@CASES
def test_plans_do_not_depend_on_the_hash_seed(depth, policy, layout):
    here = digest(record(seed=2, depth=depth, policy=policy, layout=layout))
    for hash_seed in ("0", "4711"):
        printed = subprocess.run(
            [sys.executable, "-m", "tests.replay.workload", "2", str(depth), policy, layout],
            cwd=REPOSITORY,
            env=child_environment(PYTHONHASHSEED=hash_seed),
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert printed.stdout.strip() == here
