"""One call of a generating endpoint, checked and ready to be submitted.

Owns what all such endpoints share on the way in: choices, context limits, request ids. Pure; it
submits nothing.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

import msgspec

from okibi.core.ids import RequestId
from okibi.core.request import Request
from okibi.core.sampling import MAX_SEED
from okibi.core.token_source import PackedTokens
from okibi.server.doctor.diagnosis import Diagnosis
from okibi.server.doctor.history import SessionKey
from okibi.server.engine_protocol import Ready
from okibi.server.http.errors import ApiError, context_overflow, invalid
from okibi.server.http.sampling import num_choices, sampling_params, stop_strings
from okibi.server.http.schemas import GenerationFields

MAX_SALT_CHARS = 256
MAX_REQUESTS = 256
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to run and how to answer.

    Attributes:
        call_id: Names the call towards the client; request ids derive from it.
        requests: One a choice, the choices of the first prompt first.
        prompts: The distinct prompts among them.
        session: Whose earlier prompts these may be compared with.
        diagnosis: How the prompt differs from those, if the client asked.
    """

    call_id: str
    model: str
    requests: tuple[Request, ...]
    prompts: tuple[PackedTokens, ...]
    stops: tuple[str, ...]
    stream: bool
    eos_token_ids: tuple[int, ...]
    session: SessionKey
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a call needs to know besides its body.

    Attributes:
        model: The name to answer with.
        field: Where the prompts come from, in the client's words.
        choices: Requests a prompt, as `checked_choices` allows them.
        session: The client's name for the session; empty if it gives none.
        conversation: See `core.request.Request`.
        seed: For the first choice, if the request brings none.
    """

    call_id: str
    model: str
    field: str
    limits: Ready
    choices: int
    session: str
    conversation: str
    seed: int


def checked_choices(fields: GenerationFields, num_prompts: int, limits: Ready) -> int:
    """How many choices each prompt gets. Costs nothing, so it goes before any work on the text.

    Raises:
        ApiError: 400 for more requests than any server takes in one call, 429 for more than this
            one takes at all.
    """
    choices = num_choices(fields.n)
    num_requests = choices * num_prompts
    if num_requests > MAX_REQUESTS:
        raise invalid(f"n times the number of prompts must not exceed {MAX_REQUESTS}", "n")
    if num_requests > limits.max_unfinished:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"The call makes {num_requests} requests; this server takes {limits.max_unfinished} "
            "at a time.",
            code="queue_full",
            retry_after_s=_RETRY_AFTER_S,
        )
    return choices


def build_call(
    fields: GenerationFields,
    prompts: Sequence[PackedTokens],
    context: CallContext,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    renamed: Mapping[str, str],
) -> Call:
    """Check everything and make the requests.

    Args:
        max_tokens: As given; None for as many as fit.
        logprobs, renamed: See `sampling_params`.

    Raises:
        ApiError: 400 that names the field.
    """
    _check_shared_fields(fields)
    priority = _checked_priority(fields.priority, context.limits.scheduling_policy)
    if fields.seed is None:
        fields = msgspec.structs.replace(fields, seed=context.seed)
    requests: list[Request] = []
    for prompt in prompts:
        _check_vocabulary(prompt, context)
        sampling = sampling_params(
            fields,
            max_tokens=_max_tokens(max_tokens, len(prompt), context),
            logprobs=logprobs,
            vocab_size=context.limits.vocab_size,
            renamed=renamed,
        )
        _check_context(len(prompt), sampling.max_tokens, context)
        for choice in range(context.choices):
            request = Request(
                request_id=RequestId(f"{context.call_id}-{len(requests)}"),
                prompt=prompt,
                sampling=replace(sampling, seed=_choice_seed(sampling.seed, choice)),
                priority=priority,
                cache_salt=fields.cache_salt or "",
                conversation=context.conversation,
            )
            requests.append(request)
    return Call(
        call_id=context.call_id,
        model=context.model,
        requests=tuple(requests),
        prompts=tuple(prompts),
        stops=stop_strings(fields.stop),
        stream=bool(fields.stream),
        eos_token_ids=context.limits.eos_token_ids,
        session=SessionKey(fields.cache_salt or "", context.session),
    )


def _check_shared_fields(fields: GenerationFields) -> None:
    if fields.response_format is not None and fields.response_format.type != "text":
        raise invalid(
            f"response_format {fields.response_format.type!r} is not supported", "response_format"
        )
    if fields.cache_salt is not None and not 0 < len(fields.cache_salt) <= MAX_SALT_CHARS:
        raise invalid(f"cache_salt must have 1 to {MAX_SALT_CHARS} characters", "cache_salt")


def _checked_priority(given: int | None, scheduling_policy: str) -> int:
    priority = given or 0
    if not -(2**31) <= priority < 2**31:
        raise invalid("priority must fit in a signed 32-bit integer", "priority")
    if priority and scheduling_policy != "priority":
        raise invalid(
            "priority has no effect on this server: leave it out, or start the server with "
            "--scheduling-policy priority",
            "priority",
        )
    return priority


def _check_vocabulary(prompt: PackedTokens, context: CallContext) -> None:
    """A tokenizer may know added tokens that the model has no embedding for."""
    ids, vocab_size = array("i", prompt.packed), context.limits.vocab_size
    if ids and max(ids) >= vocab_size:
        raise invalid(
            f"the prompt contains token {max(ids)}, but the model knows only the ids up to "
            f"{vocab_size - 1}",
            context.field,
        )


def _max_tokens(given: int | None, num_prompt: int, context: CallContext) -> int:
    max_model_len, field = context.limits.max_model_len, context.field
    if num_prompt >= max_model_len:
        raise context_overflow(num_prompt, max_model_len, f"your {field} resulted in", field)
    return max_model_len - num_prompt if given is None else given


def _check_context(num_prompt: int, max_tokens: int, context: CallContext) -> None:
    max_model_len, field = context.limits.max_model_len, context.field
    if num_prompt + max_tokens > max_model_len:
        raise context_overflow(
            num_prompt + max_tokens,
            max_model_len,
            f"you requested {max_tokens} tokens for the completion and your {field} resulted in "
            f"{num_prompt}, together",
            field,
        )


def _choice_seed(seed: int | None, choice: int) -> int | None:
    """Each choice its own seed; the first has the one that was given."""
    if seed is None or choice == 0:
        return seed
    return (seed + choice) % MAX_SEED
