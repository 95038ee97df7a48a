"""A seeded run in which everything happens: hits, forks, preemption, eviction, aborts.

`python -m tests.replay.workload SEED DEPTH POLICY LAYOUT` prints the digest of all its plans, so
that two processes can be compared.
"""

import sys
from hashlib import blake2b
from random import Random

from okibi.core.kv_layout import KVCacheLayout
from okibi.core.messages import Abort, ResetPrefixCache
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.sim.checking import CheckingExecutor
from okibi.sim.fake_model import FakeModel
from tests.replay.recording import RecordingReplica, plans
from tests.support.builders import (
    make_config,
    make_grouped_layout,
    make_request,
    prompt_ids,
    unique_ids,
)
from tests.support.lockstep import LockstepDriver

NUM_ROUNDS = 150
CONFIG = {"max_num_seqs": 5, "max_num_batched_tokens": 24, "max_num_queued": 40}
LAYOUTS: dict[str, KVCacheLayout] = {
    "one group": make_grouped_layout((8, 1), num_pages=24, unit=2),
    "several groups": make_grouped_layout((8, 1), (4, 2), num_pages=120, unit=2),
}


def make_recorder(depth: int, policy: str, layout: str) -> RecordingReplica:
    config = make_config(**CONFIG, max_inflight_steps=depth, scheduling_policy=policy)
    return RecordingReplica(config, LAYOUTS[layout])


def record(*, seed: int, depth: int, policy: str, layout: str) -> RecordingReplica:
    """Run the workload to its end."""
    rng = Random(seed)
    replica = make_recorder(depth, policy, layout)
    executor = CheckingExecutor(
        model=FakeModel(vocab_size=64, eos_token_id=5, eos_probability=0.02),
        max_inflight_steps=depth,
    )
    executor.allocate(LAYOUTS[layout])
    driver = LockstepDriver(replica, executor, max_inflight_steps=depth)
    requests: list[Request] = []
    for _ in range(NUM_ROUNDS):
        driver.submit(*_arrivals(rng, driver, requests))
        for _ in range(rng.randrange(8)):
            driver.step()
        if rng.random() < 0.1:
            driver.send(Abort(rng.choice(requests).request_id))
        if rng.random() < 0.02:
            driver.send(ResetPrefixCache())
    driver.run()
    return replica


def _arrivals(rng: Random, driver: LockstepDriver, requests: list[Request]) -> tuple[Request, ...]:
    """A new conversation or the next turn of an old one, sometimes with several choices."""
    prompt = unique_ids(f"root {rng.randrange(4)}", rng.randrange(1, 80))
    conversation = ""
    if requests and rng.random() < 0.6:
        parent = rng.choice(requests)
        history = prompt_ids(parent) + driver.tokens(parent.request_id)
        prompt = history[: rng.randrange(1, 100)] + unique_ids(f"{len(requests)}", 5)
        conversation = "chat"
    number = len(requests)
    arrivals = tuple(
        make_request(
            f"r{number}.{choice}",
            prompt,
            sampling=SamplingParams(max_tokens=rng.randrange(1, 60), seed=choice),
            priority=rng.randrange(3),
            conversation=conversation,
        )
        for choice in range(rng.choice([1, 1, 1, 3]))
    )
    requests.extend(arrivals)
    return arrivals


def digest(replica: RecordingReplica) -> str:
    return blake2b(b"".join(plans(replica.log)), digest_size=16).hexdigest()


if __name__ == "__main__":
    _, seed, depth, policy, layout = sys.argv
    print(digest(record(seed=int(seed), depth=int(depth), policy=policy, layout=layout)))
