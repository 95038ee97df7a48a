"""Gives each admitted request a row that all per-request tables share.

Rows are reused, lowest first, so that tables stay as small as the number of requests at once.
"""

import heapq

from okibi.core.errors import ExecutorError
from okibi.core.ids import RequestId


class RequestRows:
    """Maps requests to rows."""

    def __init__(self) -> None:
        self._row_of: dict[RequestId, int] = {}
        self._free: list[int] = []

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._row_of

    def __len__(self) -> int:
        return len(self._row_of)

    def take(self, request_id: RequestId) -> int:
        """The request's row, a new one if it has none."""
        row = self._row_of.get(request_id)
        if row is None:
            row = heapq.heappop(self._free) if self._free else len(self._row_of)
            self._row_of[request_id] = row
        return row

    def release(self, request_id: RequestId) -> int | None:
        """Free the request's row; None if it has none."""
        row = self._row_of.pop(request_id, None)
        if row is not None:
            heapq.heappush(self._free, row)
        return row

    def row(self, request_id: RequestId) -> int:
        """The row of an admitted request.

        Raises:
            ExecutorError: the request was never admitted, or is finished.
        """
        try:
            return self._row_of[request_id]
        except KeyError:
            raise ExecutorError(f"the plan names unknown request {request_id!r}") from None
