"""What enters, and what is refused at once and in words (A13, A14)."""

import pytest

from okibi.core.messages import Drain
from okibi.core.output import FinishReason, Rejection, RejectReason
from okibi.core.sampling import SamplingParams
from okibi.sim.checking import CheckingExecutor
from tests.support.builders import make_layout, make_replica, make_request, unique_ids
from tests.support.lockstep import LockstepDriver
from tests.support.simulation import Simulation


def make_driver(layout=None, **config) -> LockstepDriver:
    layout = layout or make_layout(num_pages=256)
    executor = CheckingExecutor()
    executor.allocate(layout)
    return LockstepDriver(make_replica(layout, **config), executor)


def rejection(driver: LockstepDriver, request_id: str) -> Rejection:
    outputs = driver.outputs[make_request(request_id, 1).request_id]
    assert outputs[-1].finish_reason is FinishReason.REJECTED
    assert outputs[-1].rejection is not None
    return outputs[-1].rejection


def test_what_can_never_fit_is_refused_and_blocks_nobody():
    """A pool of 10,000 tokens behind an advertised 32,000 (A13)."""
    sim = Simulation(
        make_layout(num_pages=625, block_tokens=16),
        max_model_len=32_000,
        max_num_batched_tokens=512,
    )
    assert 9_900 <= sim.replica.max_model_len <= 10_000
    sim.submit(make_request("huge", 12_000))
    sim.submit(make_request("small", 50))
    sim.run()
    assert sim.record("huge").finish_reason is FinishReason.REJECTED
    assert sim.record("small").finish_reason is FinishReason.LENGTH
    assert sim.finish("small") == 4.0, "its four tokens took four steps"


def test_the_refusal_names_both_numbers():
    driver = make_driver(make_layout(num_pages=11, block_tokens=10))
    driver.submit(make_request("r", 90, max_tokens=11))
    refusal = rejection(driver, "r")
    assert refusal.reason is RejectReason.CONTEXT_LENGTH_EXCEEDED
    assert "100 tokens" in refusal.message
    assert "101 tokens" in refusal.message
    assert refusal.retry_after_s == 0.0


@pytest.mark.parametrize("unit", [2, 10])
def test_the_longest_servable_request_runs_cold_and_warm(unit):
    layout = make_layout(num_pages=11, block_tokens=10, unit=unit)
    driver = make_driver(layout)
    prompt = unique_ids("p", driver.replica.max_model_len - 5)
    for name in ("cold", "warm"):
        driver.submit(make_request(name, prompt, max_tokens=5))
        driver.run()
    assert driver.tokens("cold") == driver.tokens("warm")
    assert driver.num_cached_tokens("warm") == (len(prompt) - 1) // unit * unit


def test_overload_is_refused_at_once_and_exactly():
    """Four may run, four may wait, fifty come (A14)."""
    driver = make_driver(max_num_seqs=4, max_num_queued=4)
    for i in range(50):
        driver.submit(make_request(f"r{i}", 20))
    refused = [i for i in range(50) if driver.finish_reason(f"r{i}") is FinishReason.REJECTED]
    assert refused == list(range(8, 50))
    for i in refused:
        assert rejection(driver, f"r{i}").reason is RejectReason.QUEUE_FULL
        assert rejection(driver, f"r{i}").retry_after_s > 0
    driver.run()
    assert all(driver.finish_reason(f"r{i}") is FinishReason.LENGTH for i in range(8))
    stats = driver.replica.stats()
    assert (stats.num_running, stats.num_waiting, stats.num_waiting_tokens) == (0, 0, 0)
    assert stats.pool.num_in_use == 0


def test_waiting_prompt_tokens_are_bounded_too():
    driver = make_driver(max_num_seqs=1, max_num_queued=100, max_num_queued_tokens=100)
    driver.submit(make_request("runs", 60))
    driver.step()
    for i in range(3):
        driver.submit(make_request(f"r{i}", 40))
    assert driver.finish_reason("r0") is None
    assert driver.finish_reason("r1") is None
    assert rejection(driver, "r2").reason is RejectReason.QUEUE_FULL
    driver.run()


def test_choices_take_a_place_each_and_enter_together_or_not_at_all():
    driver = make_driver(max_num_seqs=2, max_num_queued=3)
    prompt = unique_ids("p", 12)

    def choices(name: str, count: int) -> list[str]:
        requests = [
            make_request(
                f"{name}.{i}",
                prompt,
                sampling=SamplingParams(max_tokens=6, temperature=1.0, seed=i),
            )
            for i in range(count)
        ]
        driver.submit(*requests)
        return [request.request_id for request in requests]

    taken, refused = choices("a", 3), choices("b", 3)
    assert all(rejection(driver, name).reason is RejectReason.QUEUE_FULL for name in refused)
    driver.run()
    assert len({tuple(driver.tokens(name)) for name in taken}) == 3, "seeds differ"


def test_a_drained_replica_ends_what_it_accepted():
    driver = make_driver()
    driver.submit(make_request("accepted", 20))
    driver.send(Drain())
    driver.submit(make_request("late", 20))
    assert rejection(driver, "late").reason is RejectReason.DRAINING
    driver.run()
    assert driver.finish_reason("accepted") is FinishReason.LENGTH


def test_an_empty_prompt_and_a_known_id_are_invalid():
    driver = make_driver()
    driver.submit(make_request("empty", []))
    driver.submit(make_request("twice", 20))
    driver.submit(make_request("pair", 20), make_request("pair", 20))
    assert rejection(driver, "empty").reason is RejectReason.INVALID
    assert rejection(driver, "pair").reason is RejectReason.INVALID
    (again,) = driver.submit(make_request("twice", 20))
    assert again.rejection is not None
    assert again.rejection.reason is RejectReason.INVALID
