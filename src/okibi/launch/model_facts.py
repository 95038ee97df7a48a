"""What can be said of a model without loading its weights."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from okibi.core.arch import parse_config
from okibi.core.kv_spec import KVCacheSpec, KVDType
from okibi.execution.models.checkpoint import open_checkpoint
from okibi.launch.model_catalog import ResolvedModel

_BLOCK_TOKENS = 1 << 10
_LONG = 1 << 20


def model_facts(model: ResolvedModel) -> dict[str, Any]:
    """Facts by name, ready for JSON. KV bytes are by element type of the cache.

    Raises:
        ModelError: the checkpoint is broken, or its architecture is unknown.
    """
    checkpoint = open_checkpoint(model.path)
    arch = parse_config(checkpoint.config)
    dtypes = Counter(info.dtype for info in checkpoint.tensors.values())
    return {
        "name": model.name,
        "path": str(model.path),
        "family": arch.family,
        "num_parameters": arch.num_parameters(),
        **arch.sizes,
        "vocab_size": arch.vocab_size,
        "max_context_tokens": arch.max_position,
        "kv_bytes_per_token": {
            dtype.value: kv_bytes_per_token(arch.kv_specs(dtype))
            for dtype in (KVDType.FLOAT32, KVDType.BFLOAT16)
        },
        "file_bytes": sum(file.stat().st_size for file in checkpoint.files),
        "num_tensors_by_type": dict(sorted(dtypes.items())),
    }


def kv_bytes_per_token(specs: Sequence[KVCacheSpec]) -> int:
    """Bytes by which the cache of a long sequence grows with each token.

    State of a fixed size, such as a window's or a recurrence's, does not count.
    """
    return (_kv_bytes(specs, 2 * _LONG) - _kv_bytes(specs, _LONG)) // _LONG


def _kv_bytes(specs: Sequence[KVCacheSpec], num_tokens: int) -> int:
    return sum(
        spec.num_blocks(num_tokens, _BLOCK_TOKENS) * spec.bytes_per_block(_BLOCK_TOKENS)
        for spec in specs
    )
