"""Identifiers of the shared vocabulary.

Each is a `NewType`, so that a type checker catches a swapped index; at run time they are plain
strings and integers. Ids are never reused while anything still refers to them, except `PageId`,
which names a row of an arena.
"""

from typing import NewType

RequestId = NewType("RequestId", str)
GroupId = NewType("GroupId", int)
PageId = NewType("PageId", int)
StepId = NewType("StepId", int)
