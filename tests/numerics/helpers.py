"""Drives a model runner with plans written by hand, and asks transformers for the same logits.

Pages are handed out in a scattered order, so that no test depends on pages being neighbours.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from transformers import PreTrainedModel

from okibi.core.ids import GroupId, PageId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import BatchPlan, BlockTableUpdate, PageCopy
from okibi.core.request import Request
from okibi.execution.models.loader import LoadedModel
from okibi.execution.runner.model_runner import ModelRunner
from okibi.kvcache.layout_solver import solve_layout
from tests.support.builders import admit, chunk, make_request, plan

BLOCK_TOKENS = 4
NUM_PAGES = 64


def layout_for(
    model: LoadedModel, *, block_tokens: int = BLOCK_TOKENS, num_pages: int = NUM_PAGES
) -> KVCacheLayout:
    return solve_layout(
        model.arch.kv_specs(model.dtype),
        block_tokens=block_tokens,
        prefix_match_unit=1,
        num_pages=num_pages,
    )


@dataclass(slots=True)
class Running:
    """A request under way: its ids so far, and the pages it holds."""

    request: Request
    ids: list[int]
    pages: list[int] = field(default_factory=list)
    num_sent: int = 0

    @property
    def output(self) -> list[int]:
        return self.ids[len(self.request.prompt) :]


Part = tuple[Running, int, int]
"""Tokens `[start, stop)` of a sequence, to compute in one step."""


class PagedRunner:
    """One runner, and the bookkeeping of pages that a scheduler would do."""

    def __init__(self, model: LoadedModel, *, num_pages: int = NUM_PAGES) -> None:
        self.runner = ModelRunner(model, layout_for(model, num_pages=num_pages))
        self._free = list(range(num_pages))
        Random(0).shuffle(self._free)
        self._step = 0

    def start(self, name: str, ids: Sequence[int]) -> Running:
        return Running(make_request(name, list(ids)), list(ids))

    def fork(
        self, name: str, ids: Sequence[int], donor: Running, num_shared: int
    ) -> tuple[Running, list[PageCopy]]:
        """A request that shares the donor's first tokens, and the copy of a partial page."""
        running = self.start(name, ids)
        num_blocks, partial = divmod(num_shared, BLOCK_TOKENS)
        running.pages = donor.pages[:num_blocks]
        if not partial:
            return running, []
        running.pages.append(self._free.pop())
        source, target = donor.pages[num_blocks], running.pages[num_blocks]
        return running, [PageCopy(source=PageId(source), target=PageId(target))]

    def logits(self, *parts: Part, copies: Sequence[PageCopy] = ()) -> torch.Tensor:
        """One step; logits_RV of the sequences whose end it reaches."""
        logits = self.runner.forward(self.plan(*parts, copies=copies))
        assert logits is not None
        return logits.values_RV.clone()

    def plan(self, *parts: Part, copies: Sequence[PageCopy] = ()) -> BatchPlan:
        self._step += 1
        admitted = tuple(admit(one.request) for one, _, _ in parts if not one.num_sent)
        updates = tuple(update for one, _, stop in parts if (update := self._extend(one, stop)))
        chunks = tuple(
            chunk(one.request, start, stop, output=one.output) for one, start, stop in parts
        )
        return plan(
            self._step,
            admitted=admitted,
            table_updates=updates,
            copies=tuple(copies),
            chunks=chunks,
        )

    def _extend(self, one: Running, stop: int) -> BlockTableUpdate | None:
        while len(one.pages) * BLOCK_TOKENS < stop:
            one.pages.append(self._free.pop())
        first, one.num_sent = one.num_sent, len(one.pages)
        if first == one.num_sent:
            return None
        return BlockTableUpdate(
            request_id=one.request.request_id,
            group_id=GroupId(0),
            start_block=first,
            pages=array("i", one.pages[first:]).tobytes(),
        )


@torch.no_grad()
def transformers_logits(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    """logits_TV after every token of one sequence, computed in one go and without a cache."""
    return model(torch.tensor([list(ids)]), use_cache=False).logits[0]
