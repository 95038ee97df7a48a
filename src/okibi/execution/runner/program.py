"""What the runner asks of a model on its device: a batch in, logits out.

A program joins a model to the arena and the block tables it reads. One exists for torch modules
and one for native models; the runner knows neither.
"""

from typing import Protocol

from okibi.execution.runner.input_batch import InputBatch
from okibi.execution.runner.row_logits import RowLogits


class Program(Protocol):
    """A model over the pages of one arena."""

    def run(self, batch: InputBatch) -> RowLogits | None:
        """Write the keys and values of the batch's tokens, and compute what is sampled.

        Returns:
            The logits of the sampled rows, valid until the next run; None if there are none.
        """
        ...
