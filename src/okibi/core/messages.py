"""What may be said to a replica from outside a step.

Each message is handled by `Replica.on_message` at once and without I/O.
"""

from dataclasses import dataclass

from okibi.core.ids import RequestId
from okibi.core.request import Request


@dataclass(frozen=True, slots=True)
class Submit:
    """Take all of these requests or none; the choices of one `n > 1` call arrive together."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop a request and give its pages back. Unknown ids are ignored."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Drain:
    """Refuse new requests from now on; those accepted run to their end."""


@dataclass(frozen=True, slots=True)
class ResetPrefixCache:
    """Drop every cached block that no request uses."""


Message = Submit | Abort | Drain | ResetPrefixCache
