"""What can be said of a model without loading its weights."""

from collections import Counter
from typing import Any

from okibi.core.arch import kv_bytes_per_token, num_parameters, parse_config
from okibi.core.kv_spec import KVDType
from okibi.execution.models.checkpoint import open_checkpoint
from okibi.launch.model_catalog import ResolvedModel


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
        "num_parameters": num_parameters(arch),
        "num_layers": arch.num_layers,
        "hidden_size": arch.hidden_size,
        "num_heads": arch.num_heads,
        "num_kv_heads": arch.num_kv_heads,
        "head_dim": arch.head_dim,
        "vocab_size": arch.vocab_size,
        "max_context_tokens": arch.max_position,
        "kv_bytes_per_token": {
            dtype.value: kv_bytes_per_token(arch, dtype)
            for dtype in (KVDType.FLOAT32, KVDType.BFLOAT16)
        },
        "file_bytes": sum(file.stat().st_size for file in checkpoint.files),
        "num_tensors_by_type": dict(sorted(dtypes.items())),
    }
