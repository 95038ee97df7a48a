"""A prompt starts only beside the pages that running requests still need.

Two prompts without common parts meet in a pool that holds both to the page, or lacks one page. With
one page less the later one waits for the end of the other, and so nobody is ever preempted.
"""

import pytest

from okibi.core.request import Request
from tests.support.builders import make_layout, make_request
from tests.support.simulation import Simulation


def starts(num_pages: int, first: Request, second: Request, *, second_at: float = 0.0) -> list[int]:
    """The steps in which the two start, sixteen tokens a step, a virtual second each."""
    sim = Simulation(
        make_layout(num_pages=num_pages, block_tokens=4),
        max_num_batched_tokens=16,
    )
    sim.submit(first)
    sim.submit(second, at=second_at)
    sim.run()
    assert sim.counters.num_preemptions == 0
    started = {one.request_id: step for step, plan in enumerate(sim.plans) for one in plan.admitted}
    return [started[request.request_id] for request in (first, second)]


@pytest.mark.parametrize(("num_pages", "second_start"), [(17, 0), (16, 3)])
def test_pages_of_a_prompt_in_progress_are_promised(num_pages: int, second_start: int):
    """Ten pages of the first prompt and one to go on with, six of the second prompt."""
    first = make_request("first", 40, max_tokens=1)
    second = make_request("second", 24, max_tokens=1)
    assert starts(num_pages, first, second) == [0, second_start]


@pytest.mark.parametrize(("num_pages", "second_start"), [(6, 1), (5, 7)])
def test_the_next_block_of_a_stream_is_promised(num_pages: int, second_start: int):
    """Two pages of the first prompt and one to go on with, three of the second prompt."""
    first = make_request("first", 6, max_tokens=7)
    second = make_request("second", 10, max_tokens=3)
    assert starts(num_pages, first, second, second_at=0.5) == [0, second_start]
