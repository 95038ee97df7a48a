"""Which rows of a flattened batch belong to which sequence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpan:
    """Consecutive new tokens of one sequence.

    Attributes:
        table_row: Row of the block tables.
        first: Index of the span's first token in the batch.
        num_tokens: Its length.
        start: Position of its first token in the sequence. The span's own keys and values are
            already in the pages, so the sequence is `start + num_tokens` long.
    """

    table_row: int
    first: int
    num_tokens: int
    start: int
