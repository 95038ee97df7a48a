"""Slots of new keys and values follow from block tables, rows and positions."""

import torch

from okibi.execution.kv_store.pages import PageArena
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.paged_context import PagedContext
from okibi.execution.runner.request_rows import RequestRows
from tests.support.builders import make_grouped_layout, make_request, pages

CPU = torch.device("cpu")
A, B = make_request("a"), make_request("b")


def test_slots_are_looked_up_in_the_table_of_each_group():
    layout = make_grouped_layout((4, 1), (6, 1), num_pages=16)
    rows, tables = RequestRows(), BlockTables(layout, CPU)
    for request in (A, B):
        rows.take(request.request_id)
    updates = [pages(A, 7, 3), pages(B, 5, 6), pages(A, 2, group=1), pages(B, 1, group=1)]
    tables.update(updates, rows)
    context = PagedContext(layout, PageArena(layout, CPU), tables)
    slots = context.slots(torch.tensor([1, 1, 0, 0]), torch.tensor([3, 4, 1, 5]))
    first, second = slots.values()
    assert first.page_T.tolist() == [5, 6, 7, 3]
    assert first.offset_T.tolist() == [3, 0, 1, 1]
    assert second.page_T.tolist() == [1, 1, 2, 2]
    assert second.offset_T.tolist() == [3, 4, 1, 5]
