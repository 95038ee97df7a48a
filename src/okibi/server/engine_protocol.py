"""What the HTTP process and the engine process say to each other.

Owns the frames and their encoding (MessagePack by msgspec: typed, and decoding runs no code).
Core's dataclasses travel as they are; only a request has a twin here, because a prompt is an
interface in core and packed ids on the wire. Holds no socket.
"""

from typing import assert_never

import msgspec

from okibi.control.stats import ReplicaStats
from okibi.core.ids import RequestId
from okibi.core.messages import Abort, Drain, Message, ResetPrefixCache, Submit
from okibi.core.output import RequestOutput
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens


class RequestFrame(msgspec.Struct, frozen=True, array_like=True):
    """A `Request` whose prompt is packed int32 ids."""

    request_id: RequestId
    prompt: bytes
    sampling: SamplingParams
    priority: int
    cache_salt: str
    conversation: str


class SubmitFrame(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    requests: tuple[RequestFrame, ...]


class AbortFrame(msgspec.Struct, frozen=True, array_like=True, tag="abort"):
    request_id: RequestId


class DrainFrame(msgspec.Struct, frozen=True, array_like=True, tag="drain"):
    pass


class ResetFrame(msgspec.Struct, frozen=True, array_like=True, tag="reset"):
    pass


ToEngine = SubmitFrame | AbortFrame | DrainFrame | ResetFrame


class Loading(msgspec.Struct, frozen=True, array_like=True, tag="loading"):
    """The engine is starting; a line for the person who waits."""

    message: str


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """The engine takes requests from now on.

    Attributes:
        max_model_len: Tokens of the longest sequence that can really be served.
        prefix_match_unit: Tokens of the unit in which cached prefixes are reused.
        pool_tokens: Tokens that the whole KV pool holds.
        vocab_size: Token ids below it are valid.
        eos_token_ids: Tokens that end a generation.
        max_unfinished: Requests that may run or wait at the same time.
        scheduling_policy: See `control.config.ReplicaConfig`.
        stats: The replica before its first request.
    """

    max_model_len: int
    prefix_match_unit: int
    pool_tokens: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    max_unfinished: int
    scheduling_policy: str
    stats: ReplicaStats


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The engine stops. `is_config` if the person who started it can put it right."""

    message: str
    is_config: bool


class News(msgspec.Struct, frozen=True, array_like=True, tag="news"):
    """What one turn of the driver's loop brought, and the replica's state after it."""

    outputs: tuple[RequestOutput, ...]
    stats: ReplicaStats


FromEngine = Loading | Ready | Failed | News

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_from_engine = msgspec.msgpack.Decoder(FromEngine)


def encode_message(message: Message) -> bytes:
    """A frame for the engine.

    Raises:
        TypeError: a prompt has no token ids.
    """
    return _encoder.encode(_frame(message))


def decode_message(frame: bytes) -> Message:
    """Raises `msgspec.DecodeError` on anything that `encode_message` does not make."""
    match _to_engine.decode(frame):
        case SubmitFrame(requests):
            return Submit(tuple(_request(request) for request in requests))
        case AbortFrame(request_id):
            return Abort(request_id)
        case DrainFrame():
            return Drain()
        case ResetFrame():
            return ResetPrefixCache()
        case other:
            assert_never(other)


def encode_event(event: FromEngine) -> bytes:
    """A frame from the engine."""
    return _encoder.encode(event)


def decode_event(frame: bytes) -> FromEngine:
    """Raises `msgspec.DecodeError` on anything that `encode_event` does not make."""
    return _from_engine.decode(frame)


def _frame(message: Message) -> ToEngine:
    match message:
        case Submit(requests):
            return SubmitFrame(tuple(_request_frame(request) for request in requests))
        case Abort(request_id):
            return AbortFrame(request_id)
        case Drain():
            return DrainFrame()
        case ResetPrefixCache():
            return ResetFrame()


def _request_frame(request: Request) -> RequestFrame:
    if not isinstance(request.prompt, PackedTokens):
        raise TypeError("only prompts of packed token ids can be sent")
    return RequestFrame(
        request.request_id,
        request.prompt.packed,
        request.sampling,
        request.priority,
        request.cache_salt,
        request.conversation,
    )


def _request(frame: RequestFrame) -> Request:
    return Request(
        request_id=frame.request_id,
        prompt=PackedTokens(frame.prompt),
        sampling=frame.sampling,
        priority=frame.priority,
        cache_salt=frame.cache_salt,
        conversation=frame.conversation,
    )
