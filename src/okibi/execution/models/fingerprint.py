"""The identity of weights and config, for cache keys.

Two checkpoints with one fingerprint are taken to be the same model, so that they may share cached
blocks. Hashing every byte of a large model takes minutes; this hashes what distinguishes models
in practice:

    the config, as canonical JSON
    name, shape and type of every tensor
    of every file: its size, first and last MiB, and 64 evenly spaced pieces of 64 KiB

Files changed only between those pieces, with all else equal, are not told apart.
"""

import hashlib
import json
from pathlib import Path

from okibi.core.errors import ModelError
from okibi.execution.models.checkpoint import Checkpoint

VERSION = b"okibi-model-1"
EDGE_BYTES = 1 << 20
NUM_PIECES = 64
PIECE_BYTES = 64 << 10


def fingerprint(checkpoint: Checkpoint) -> str:
    """A SHA-256 as 64 hex digits.

    Raises:
        ModelError: a file cannot be read.
    """
    digest = hashlib.sha256(VERSION)
    digest.update(json.dumps(checkpoint.config, sort_keys=True).encode())
    for name in sorted(checkpoint.tensors):
        info = checkpoint.tensors[name]
        digest.update(f"{name} {info.shape} {info.dtype}\n".encode())
    for file in checkpoint.files:
        digest.update(_sample(file))
    return digest.hexdigest()


def _sample(path: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest.update(size.to_bytes(8, "little"))
            for start, length in _pieces(size):
                file.seek(start)
                digest.update(file.read(length))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    return digest.digest()


def _pieces(size: int) -> list[tuple[int, int]]:
    """(start, length) of the sampled parts of a file."""
    inner = [(size * index // NUM_PIECES, PIECE_BYTES) for index in range(NUM_PIECES)]
    return [(0, EDGE_BYTES), *inner, (max(0, size - EDGE_BYTES), EDGE_BYTES)]
