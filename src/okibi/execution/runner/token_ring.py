"""The tokens sampled by the last few steps, on the device.

A plan may name a token by (step, row) before its value is known on the host. The ring keeps as
many steps as can be referred to and refuses anything older: a wrong token would be silent.
"""

from collections.abc import Sequence

import torch

from okibi.core.errors import ExecutorError
from okibi.core.ids import StepId
from okibi.core.plan import TokenRef

NUM_STEPS = 4


class TokenRing:
    """Sampled tokens by step."""

    def __init__(self) -> None:
        self._steps: dict[StepId, torch.Tensor] = {}

    def store(self, step_id: StepId, token_ids_R: torch.Tensor) -> None:
        self._steps[step_id] = token_ids_R
        while len(self._steps) > NUM_STEPS:
            del self._steps[next(iter(self._steps))]

    def resolve(self, refs: Sequence[TokenRef]) -> torch.Tensor:
        """The tokens behind `refs`, in their order, without a wait for the device.

        Raises:
            ExecutorError: a reference names a step or row that is not kept.
        """
        by_step: dict[StepId, list[int]] = {}
        for index, ref in enumerate(refs):
            self._check(ref)
            by_step.setdefault(ref.step_id, []).append(index)
        parts = [
            self._steps[step_id][[refs[index].row for index in indices]]
            for step_id, indices in by_step.items()
        ]
        order = [index for indices in by_step.values() for index in indices]
        token_ids = torch.cat(parts)
        result = torch.empty_like(token_ids)
        result[order] = token_ids
        return result

    def _check(self, ref: TokenRef) -> None:
        kept = self._steps.get(ref.step_id)
        if kept is None or not 0 <= ref.row < kept.shape[0] or ref.draft != 0:
            raise ExecutorError(f"the plan refers to a token that is not kept: {ref}")
