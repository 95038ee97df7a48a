"""Which tokens each penalised request has in its prompt and output, on the device.

Dense rows over the vocabulary, kept only for requests whose penalties need them. A sampled token
is counted on the device, so that the next step may start before the host knows it.
"""

from collections.abc import Sequence

import numpy as np
import torch

from okibi.core.ids import RequestId
from okibi.core.plan import AdmittedRequest
from okibi.execution.runner.request_rows import RequestRows

INITIAL_SLOTS = 4


class TokenCounts:
    """Counts of the requests that need a history."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._slots = RequestRows()
        self._outputs_SV = torch.zeros((INITIAL_SLOTS, vocab_size), dtype=torch.int32).to(device)
        self._prompts_SV = torch.zeros((INITIAL_SLOTS, vocab_size), dtype=torch.bool).to(device)

    def admit(self, request: AdmittedRequest) -> None:
        """Start counting from the request's history, if its penalties need one."""
        self.release(request.request_id)
        if not request.sampling.needs_history:
            return
        slot = self._slots.take(request.request_id)
        self._reserve(slot + 1)
        history = np.frombuffer(request.history or b"", dtype="<i4")
        prompt = history[: request.num_prompt_tokens]
        output = history[request.num_prompt_tokens :]
        self._prompts_SV[slot] = self._count(prompt) > 0
        self._outputs_SV[slot] = self._count(output)

    def release(self, request_id: RequestId) -> None:
        self._slots.release(request_id)

    def gather(self, request_ids: Sequence[RequestId]) -> tuple[torch.Tensor, torch.Tensor]:
        """(output_counts_RV, in_prompt_RV) of penalised requests."""
        slots = self._slots_of(request_ids)
        return self._outputs_SV[slots], self._prompts_SV[slots]

    def add(self, request_ids: Sequence[RequestId], token_ids_R: torch.Tensor) -> None:
        """Count one generated token for each of the requests."""
        one = torch.ones(1, dtype=torch.int32, device=token_ids_R.device)
        index = (self._slots_of(request_ids), token_ids_R)
        self._outputs_SV.index_put_(index, one, accumulate=True)

    def _slots_of(self, request_ids: Sequence[RequestId]) -> torch.Tensor:
        slots = [self._slots.row(request_id) for request_id in request_ids]
        return torch.tensor(slots, device=self._outputs_SV.device)

    def _count(self, token_ids: np.ndarray) -> torch.Tensor:
        known = token_ids[(token_ids >= 0) & (token_ids < self._vocab_size)]
        counts = np.bincount(known, minlength=self._vocab_size).astype(np.int32)
        return torch.from_numpy(counts).to(self._outputs_SV.device)

    def _reserve(self, num_slots: int) -> None:
        held = self._outputs_SV.shape[0]
        if num_slots > held:
            extra = (max(held, num_slots - held), self._vocab_size)
            self._outputs_SV = torch.cat((self._outputs_SV, self._outputs_SV.new_zeros(extra)))
            self._prompts_SV = torch.cat((self._prompts_SV, self._prompts_SV.new_zeros(extra)))
