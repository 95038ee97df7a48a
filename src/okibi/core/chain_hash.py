"""The chain hash that names KV content: who came before, and which tokens.

`chain_digests` runs the C++ twin when the package was built with one and hashlib otherwise; both
are public so that tests can hold them equal, and nothing else may choose between them. A digest
is unkeyed BLAKE2b (RFC 7693) with 16 bytes of output. This module never sees tokens, layouts or
KV dtypes: its callers decide which bytes name a unit.
"""

from collections.abc import Callable
from hashlib import blake2b

DIGEST_BYTES = 16

Buffer = bytes | bytearray | memoryview
ChainDigests = Callable[[bytes, Buffer, int], bytes]


def python_chain_digests(parent: bytes, data: Buffer, unit_bytes: int, /) -> bytes:
    """`chain_digests` on hashlib."""
    if len(parent) != DIGEST_BYTES:
        raise ValueError(f"parent must be {DIGEST_BYTES} bytes, not {len(parent)}")
    if unit_bytes <= 0:
        raise ValueError(f"unit_bytes must be positive, not {unit_bytes}")
    units = memoryview(data)
    digests = bytearray()
    for start in range(0, units.nbytes - unit_bytes + 1, unit_bytes):
        link = blake2b(parent, digest_size=DIGEST_BYTES)
        link.update(units[start : start + unit_bytes])
        parent = link.digest()
        digests += parent
    return bytes(digests)


def _load_native() -> ChainDigests | None:
    try:
        from okibi._native import chain_digests
    except ImportError:
        return None
    return chain_digests


native_chain_digests = _load_native()
"""The C++ twin, or None where the package was installed without a compiler."""

_chain_digests = native_chain_digests or python_chain_digests


def chain_digests(parent: bytes, data: Buffer, unit_bytes: int) -> bytes:
    """Digest every complete unit of `data`, each chained to the one before.

    Args:
        parent: Digest of the unit before `data`, or a root digest; 16 bytes.
        data: Units one after another; a last incomplete unit is ignored.
        unit_bytes: Size of a unit.

    Returns:
        `digest_i = BLAKE2b-128(digest_{i-1} || unit_i)`, concatenated, 16 bytes a unit.

    Raises:
        ValueError: `parent` is not 16 bytes long or `unit_bytes` is not positive.
    """
    return _chain_digests(parent, data, unit_bytes)


def root_digest(fingerprint: str, salt: str) -> bytes:
    """The parent of a first unit: one 16-byte root per model identity and cache salt.

    Both strings enter with their length, so no two pairs share an encoding.
    """
    root = blake2b(digest_size=DIGEST_BYTES, person=b"okibi root")
    for part in (fingerprint.encode(), salt.encode()):
        root.update(len(part).to_bytes(8, "little"))
        root.update(part)
    return root.digest()
