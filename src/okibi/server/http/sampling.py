"""Sampling parameters from a request's fields.

Ranges are checked where they are defined, in `core.sampling`; what depends on the model or on the
API is checked here. Every refusal names the field as the client wrote it.
"""

import re
from collections.abc import Mapping

from okibi.core.sampling import SamplingParams
from okibi.server.http.errors import ApiError, invalid
from okibi.server.http.schemas import GenerationFields

MAX_CHOICES = 128
MAX_STOPS = 16
MAX_STOP_CHARS = 256
_TOKEN_ID = re.compile(r"[0-9]{1,10}")


def sampling_params(
    fields: GenerationFields,
    *,
    max_tokens: int,
    logprobs: int | None,
    vocab_size: int,
    renamed: Mapping[str, str],
) -> SamplingParams:
    """Parameters of a call's first choice.

    Args:
        max_tokens: Resolved against the context.
        logprobs: Alternatives to report; None for no log-probabilities.
        renamed: Field names of the API by the names of `SamplingParams`, where they differ.

    Raises:
        ApiError: 400 that names the field.
    """
    given = {name: value for name in _SAME_NAME if (value := getattr(fields, name)) is not None}
    try:
        return SamplingParams(
            max_tokens=max_tokens,
            top_k=_top_k(fields.top_k, vocab_size),
            logit_bias=_logit_bias(fields.logit_bias, vocab_size),
            stop_token_ids=_stop_token_ids(fields.stop_token_ids, vocab_size),
            seed=fields.seed,
            ignore_eos=bool(fields.ignore_eos),
            logprobs=logprobs,
            **given,
        )
    except ValueError as error:
        raise _name_field(str(error), renamed) from None


def num_choices(n: int | None) -> int:
    """Raises `ApiError` if `n` is out of range."""
    if n is None:
        return 1
    if not 1 <= n <= MAX_CHOICES:
        raise invalid(f"n must be between 1 and {MAX_CHOICES}, got {n}", "n")
    return n


def stop_strings(stop: str | list[str] | None) -> tuple[str, ...]:
    """Raises `ApiError` if there are too many, or one is empty or too long."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOPS:
        raise invalid(f"stop takes at most {MAX_STOPS} strings", "stop")
    if not all(0 < len(text) <= MAX_STOP_CHARS for text in stops):
        raise invalid(f"a stop string must have 1 to {MAX_STOP_CHARS} characters", "stop")
    return stops


_SAME_NAME = (
    "temperature",
    "top_p",
    "min_p",
    "min_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


def _top_k(top_k: int | None, vocab_size: int) -> int:
    if top_k is None or top_k == -1:
        return 0
    if top_k > vocab_size:
        raise invalid(f"top_k must not exceed the vocabulary ({vocab_size}), got {top_k}", "top_k")
    return top_k


def _logit_bias(bias: Mapping[str, float] | None, vocab_size: int) -> tuple[tuple[int, float], ...]:
    pairs = []
    for key, value in (bias or {}).items():
        if not _TOKEN_ID.fullmatch(key) or int(key) >= vocab_size:
            raise invalid(
                f"logit_bias keys must be token ids below {vocab_size}, got {key!r}", "logit_bias"
            )
        pairs.append((int(key), value))
    return tuple(pairs)


def _stop_token_ids(token_ids: list[int] | None, vocab_size: int) -> tuple[int, ...]:
    for token_id in token_ids or ():
        if not 0 <= token_id < vocab_size:
            raise invalid(
                f"stop_token_ids must be token ids below {vocab_size}, got {token_id}",
                "stop_token_ids",
            )
    return tuple(token_ids or ())


def _name_field(message: str, renamed: Mapping[str, str]) -> ApiError:
    """The messages of `SamplingParams` begin with the name of the parameter."""
    name = message.split(" ", 1)[0]
    if name in renamed:
        message = message.replace(name, renamed[name], 1)
        name = renamed[name]
    return invalid(message, name)
