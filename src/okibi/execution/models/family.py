"""What okibi asks of a model, whatever its family.

Owns the two ends of the registry: `Model`, which is all that the runner may know of a network, and
`ModelFamily`, by which a family enters the registry. The numbers behind a model are its `Arch`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import nn

from okibi.core.arch import Arch
from okibi.execution.layers.attention import Attend
from okibi.execution.models.checkpoint import Checkpoint
from okibi.execution.models.native import NativeModel, NativeOptions


class Model(nn.Module, ABC):
    """A decoder with a language-model head."""

    @abstractmethod
    def forward(
        self, token_ids_T: torch.Tensor, positions_T: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        """Hidden states x_TH of all sequences' tokens, flattened, after the last norm."""

    @abstractmethod
    def logits(self, x_RH: torch.Tensor) -> torch.Tensor:
        """logits_RV in float32, of the rows that are to be sampled."""


A = TypeVar("A", bound=Arch)
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily(Generic[A, M]):
    """How models of one family are made and filled.

    Attributes:
        build: The model of an arch, its parameters allocated where torch's defaults say and not
            yet filled. The device is for what it computes at once, such as tables of angles.
        check_weights: Raises `ModelError` if a checkpoint does not fit. Reads headers only.
        load_weights: Fills every parameter. Raises `ModelError` if that cannot be done.
        load_native: Makes and fills a model on the native kernels, if the family has them. Raises
            `ModelError`, or `NativeUnavailable` if they cannot run this arch.
    """

    build: Callable[[A, torch.device], M]
    check_weights: Callable[[A, Checkpoint], object]
    load_weights: Callable[[M, A, Checkpoint], None]
    load_native: Callable[[A, Checkpoint, NativeOptions], NativeModel] | None = None
