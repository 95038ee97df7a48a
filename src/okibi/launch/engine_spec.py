"""What the engine process is told to build, as it crosses from the HTTP process.

A value and its encoding: a length, then MessagePack. Limits left None follow from the model or the
memory at hand.
"""

import struct
from typing import BinaryIO

import msgspec

from okibi.core.errors import OkibiError

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


def encode_spec(spec: EngineSpec) -> bytes:
    """The spec as bytes for `read_spec`."""
    body = msgspec.msgpack.encode(spec)
    return _LENGTH.pack(len(body)) + body


def read_spec(stream: BinaryIO) -> EngineSpec:
    """Raises `OkibiError` if the stream ends before the spec does."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise OkibiError("the engine process was started without a specification")
    return msgspec.msgpack.decode(stream.read(_LENGTH.unpack(head)[0]), type=EngineSpec)
