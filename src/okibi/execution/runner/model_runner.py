"""Runs plans on one model and one arena, one step at a time.

Owns the order inside a step: forget, admit, update tables, copy pages, compute, sample. All chunks
go through the model in one run of its program, whatever kernels that has.
"""

from collections.abc import Sequence

import numpy as np
import torch

from okibi.core.ids import RequestId
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.plan import AdmittedRequest, BatchPlan
from okibi.execution.kv_store.pages import PageArena
from okibi.execution.models.loader import LoadedModel
from okibi.execution.runner.block_tables import BlockTables
from okibi.execution.runner.input_batch import InputBatchBuilder
from okibi.execution.runner.programs import make_program
from okibi.execution.runner.request_rows import RequestRows
from okibi.execution.runner.row_logits import RowLogits
from okibi.execution.runner.sampler import Sampler
from okibi.execution.runner.sampling_table import SamplingTable
from okibi.execution.runner.step_result import StepResult
from okibi.execution.runner.token_counts import TokenCounts
from okibi.execution.runner.token_ring import TokenRing


class ModelRunner:
    """Everything an executor keeps between steps."""

    def __init__(self, model: LoadedModel, layout: KVCacheLayout) -> None:
        """Allocate the arena.

        Raises:
            ConfigError: the memory is not there.
        """
        vocab_size, device = model.arch.vocab_size, model.device
        self._arena = PageArena(layout, device)
        self._rows = RequestRows()
        self._tables = BlockTables(layout, device)
        self._ring = TokenRing()
        self._counts = TokenCounts(vocab_size, device)
        self._sampling = SamplingTable(vocab_size)
        self._sampler = Sampler(self._counts)
        self._batches = InputBatchBuilder(
            layout, self._rows, self._tables, self._ring, vocab_size, device
        )
        self._program = make_program(model, layout, self._arena, self._tables)

    @torch.inference_mode()
    def run(self, plan: BatchPlan) -> StepResult:
        """Run one step. On a device it may still be under way when this returns.

        Raises:
            ExecutorError: the plan cannot be run as it is.
        """
        logits = self.forward(plan)
        sampling = [chunk for chunk in plan.chunks if chunk.samples]
        request_ids = tuple(chunk.request_id for chunk in sampling)
        if logits is None:
            return StepResult(step_id=plan.step_id, request_ids=(), sampled=None)
        rows = np.array([self._rows.row(request_id) for request_id in request_ids])
        ends = np.array([chunk.end for chunk in sampling])
        sampled = self._sampler.sample(logits, self._sampling.batch(rows, ends), request_ids)
        self._ring.store(plan.step_id, sampled.token_ids_R)
        return StepResult(step_id=plan.step_id, request_ids=request_ids, sampled=sampled)

    @torch.inference_mode()
    def forward(self, plan: BatchPlan) -> RowLogits | None:
        """Run one step short of sampling: the logits of its sampled rows, or None.

        The logits are valid until the next step.

        Raises:
            ExecutorError: the plan cannot be run as it is.
        """
        self._forget(plan.finished)
        self._admit(plan.admitted)
        self._tables.update(plan.table_updates, self._rows)
        self._arena.copy_pages(plan.copies)
        if not plan.chunks:
            return None
        return self._program.run(self._batches.build(plan.chunks))

    def _forget(self, request_ids: Sequence[RequestId]) -> None:
        for request_id in request_ids:
            self._counts.release(request_id)
            row = self._rows.release(request_id)
            if row is not None:
                self._tables.clear(row)
                self._sampling.clear(row)

    def _admit(self, requests: Sequence[AdmittedRequest]) -> None:
        for request in requests:
            row = self._rows.take(request.request_id)
            self._tables.clear(row)
            self._sampling.admit(row, request)
            self._counts.admit(request)
