"""The choice of the kernels that run a model, as people make it on the command line.

Which of them can be had is found out where the model is loaded.
"""

from enum import StrEnum


class KernelChoice(StrEnum):
    """`auto` takes the native kernels where they can be had, and the torch reference elsewhere."""

    AUTO = "auto"
    NATIVE = "native"
    REFERENCE = "reference"
