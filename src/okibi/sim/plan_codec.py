"""Plans as bytes.

Owns the one encoding of a `BatchPlan` (msgpack), used to prove that plans are values and to
compare two runs byte by byte. Equal plans have equal bytes.
"""

import msgspec

from okibi.core.plan import BatchPlan

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(BatchPlan)


def encode_plan(plan: BatchPlan) -> bytes:
    return _encoder.encode(plan)


def decode_plan(packed: bytes) -> BatchPlan:
    return _decoder.decode(packed)
