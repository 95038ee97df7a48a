"""What the engine process is told to build, as it crosses from the HTTP process.

A value and its encoding: a length, then MessagePack. Limits left None follow from the model or the
memory at hand.
"""

import struct
from typing import BinaryIO

import msgspec

from okibi.control.config import ReplicaConfig
from okibi.core.kernels import KernelChoice

_LENGTH = struct.Struct("<I")


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One engine.

    Attributes:
        model: Path of a folder or a GGUF file.
        link_folder: Where the link's sockets are.
        eos_token_ids: Ends of a generation that the tokenizer's files name, beside the model's.
        prefix_match_unit: None for a whole block.
        kv_cache_memory_bytes: None for a share of the memory that is free.
        max_model_len: None for what the model was made for.

    The others are those of `control.config.ReplicaConfig`.
    """

    model: str
    link_folder: str
    device: str
    dtype: str
    kernels: KernelChoice
    eos_token_ids: tuple[int, ...]
    block_size: int
    prefix_match_unit: int | None
    kv_cache_memory_bytes: int | None
    max_model_len: int | None
    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int
    max_num_queued: int
    max_num_queued_tokens: int
    scheduling_policy: str
    max_inflight_steps: int


def replica_config(
    spec: EngineSpec, *, model_fingerprint: str, max_model_len: int, eos_token_ids: tuple[int, ...]
) -> ReplicaConfig:
    """The replica's part of a spec, completed with what only the model tells.

    Raises:
        ConfigError: the limits do not fit together.
    """
    return ReplicaConfig(
        model_fingerprint=model_fingerprint,
        max_model_len=max_model_len,
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=spec.max_num_batched_tokens,
        long_prefill_token_threshold=spec.long_prefill_token_threshold,
        max_num_queued=spec.max_num_queued,
        max_num_queued_tokens=spec.max_num_queued_tokens,
        scheduling_policy=spec.scheduling_policy,
        max_inflight_steps=spec.max_inflight_steps,
        eos_token_ids=eos_token_ids,
    )


def check_spec(spec: EngineSpec) -> None:
    """Find what cannot work before the model is loaded.

    Raises:
        ConfigError: with the flag to change.
    """
    replica_config(
        spec,
        model_fingerprint="",
        max_model_len=1 if spec.max_model_len is None else spec.max_model_len,
        eos_token_ids=(),
    )


def encode_spec(spec: EngineSpec) -> bytes:
    """The spec as bytes for `read_spec`."""
    body = msgspec.msgpack.encode(spec)
    return _LENGTH.pack(len(body)) + body


def read_spec(stream: BinaryIO) -> EngineSpec | None:
    """The spec, or None if the parent closed the stream without sending one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return msgspec.msgpack.decode(stream.read(_LENGTH.unpack(head)[0]), type=EngineSpec)
