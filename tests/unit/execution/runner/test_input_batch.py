"""Flattened batches: tokens and spans, and the plans that are refused."""

from typing import Any

import pytest
import torch

from okibi.core.errors import ExecutorError
from okibi.core.ids import StepId
from okibi.core.plan import TokenRef
from okibi.execution.runner.block_tables import INITIAL_BLOCKS, INITIAL_ROWS, BlockTables
from okibi.execution.runner.input_batch import InputBatch, InputBatchBuilder
from okibi.execution.runner.request_rows import RequestRows
from okibi.execution.runner.token_ring import NUM_STEPS, TokenRing
from tests.support.builders import chunk, make_layout, make_request, pages

CPU = torch.device("cpu")
VOCAB_SIZE = 300
A = make_request("a", [10, 11, 12, 13, 14, 15])
B = make_request("b", [20, 21, 22, 23, 24])


class Tables:
    """What a runner keeps, with requests a (pages 7, 3) and b (pages 5, 6) known."""

    def __init__(self, num_pages: int = 16) -> None:
        self.layout = make_layout(num_pages=num_pages, block_tokens=4)
        self.rows, self.ring = RequestRows(), TokenRing()
        self.tables = BlockTables(self.layout, CPU)
        for request in (A, B):
            self.rows.take(request.request_id)
        self.tables.update([pages(A, 7, 3), pages(B, 5, 6)], self.rows)

    def build(self, *chunks: Any) -> InputBatch:
        builder = InputBatchBuilder(self.layout, self.rows, self.tables, self.ring, VOCAB_SIZE, CPU)
        return builder.build(chunks)


def test_chunks_become_one_batch():
    batch = Tables().build(chunk(B, 3, 5), chunk(A, 1, 5))
    assert batch.token_ids_T.tolist() == [23, 24, 11, 12, 13, 14]
    assert batch.spans_S4.tolist() == [[1, 0, 2, 3], [0, 2, 4, 1]]
    assert batch.sampled_R.tolist() == [1]


def test_references_are_filled_in_by_chunk():
    tables = Tables()
    tables.ring.store(StepId(4), torch.tensor([101, 102]))
    tables.ring.store(StepId(5), torch.tensor([103]))
    refs = [TokenRef(step_id=StepId(5), row=0), TokenRef(step_id=StepId(4), row=1)]
    batch = tables.build(
        chunk(B, 5, 6, output=(), tokens=b"", ref=refs[0]),
        chunk(A, 4, 7, tokens=chunk(A, 4, 6).tokens, ref=refs[1]),
    )
    assert batch.token_ids_T.tolist() == [103, 14, 15, 102]


@pytest.mark.parametrize(
    "ref",
    [
        TokenRef(step_id=StepId(0), row=0),
        TokenRef(step_id=StepId(NUM_STEPS), row=1),
        TokenRef(step_id=StepId(NUM_STEPS), row=-1),
        TokenRef(step_id=StepId(NUM_STEPS), row=0, draft=1),
        TokenRef(step_id=StepId(99), row=0),
    ],
)
def test_a_reference_that_is_not_kept_is_refused(ref: TokenRef):
    tables = Tables()
    for step in range(NUM_STEPS + 1):
        tables.ring.store(StepId(step), torch.tensor([step]))
    with pytest.raises(ExecutorError, match="not kept"):
        tables.build(chunk(A, 6, 7, output=(), tokens=b"", ref=ref))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": None}, "no token ids"),
        ({"tokens": b""}, "0 token ids for a chunk of 2"),
        ({"tokens": b"\x00" * 12}, "3 token ids for a chunk of 2"),
        ({"drafts": (1,)}, "draft"),
        ({"tokens": b"\xff" * 8}, r"outside of 0\.\.299"),
        ({"tokens": (VOCAB_SIZE).to_bytes(4, "little") * 2}, r"outside of 0\.\.299"),
        ({"request_id": "c"}, "unknown request 'c'"),
    ],
)
def test_a_chunk_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ExecutorError, match=message):
        Tables().build(chunk(A, 0, 2, **changes))


def test_a_chunk_beyond_its_pages_is_refused():
    with pytest.raises(ExecutorError, match="pages for 8 tokens, the plan computes up to 9"):
        Tables().build(chunk(A, 6, 9, output=(1, 2, 3)))


class TestBlockTables:
    def test_updates_extend_and_replace(self):
        tables = Tables()
        (group,) = tables.layout.groups
        tables.tables.update(
            [pages(A, 9, 8, start_block=2), pages(B, 1, start_block=1)], tables.rows
        )
        assert tables.tables.table(group.group_id)[:2, :4].tolist() == [[7, 3, 9, 8], [5, 1, 0, 0]]
        assert tables.tables.num_blocks(group.group_id, 0) == 4

    def test_tables_grow_in_both_directions(self):
        tables = Tables(num_pages=1000)
        (group,) = tables.layout.groups
        requests = [make_request(f"more {index}", 4) for index in range(3 * INITIAL_ROWS)]
        for request in requests:
            tables.rows.take(request.request_id)
        long = list(range(3 * INITIAL_BLOCKS))
        tables.tables.update(
            [pages(request, index) for index, request in enumerate(requests)], tables.rows
        )
        tables.tables.update([pages(requests[-1], *long)], tables.rows)
        table = tables.tables.table(group.group_id)
        assert table[tables.rows.row(requests[-1].request_id), : len(long)].tolist() == long
        assert table[:4, 0].tolist() == [7, 5, 0, 1]

    @pytest.mark.parametrize(
        ("update", "message"),
        [
            (pages(A, 1, start_block=3), "gap"),
            (pages(A, 16), r"0\.\.15"),
            (pages(A, -1), r"0\.\.15"),
            (pages(make_request("c"), 1), "unknown"),
        ],
    )
    def test_a_wrong_update_is_refused(self, update: Any, message: str):
        tables = Tables()
        with pytest.raises(ExecutorError, match=message):
            tables.tables.update([update], tables.rows)


def test_rows_are_reused_lowest_first():
    rows = RequestRows()
    names = [make_request(name).request_id for name in "abcd"]
    assert [rows.take(name) for name in names] == [0, 1, 2, 3]
    assert rows.take(names[2]) == 2
    assert [rows.release(names[2]), rows.release(names[0]), rows.release(names[0])] == [2, 0, None]
    assert [rows.take(names[0]), rows.take(names[2]), rows.take(make_request("e").request_id)] == [
        0,
        2,
        4,
    ]
