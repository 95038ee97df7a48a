"""What chat and text completions of the OpenAI API have in common on the way in.

Owns the steps around `build_call` that both take: who asks, under which model's name, and how the
answers will begin.
"""

import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers

from okibi.core.sampling import MAX_SEED
from okibi.server.http.call import Call, CallContext, checked_choices
from okibi.server.http.conversation import conversation_hint, opening_name
from okibi.server.http.openai_reply import OpenAIReply
from okibi.server.http.schemas import GenerationFields
from okibi.server.http.services import Services
from okibi.server.prompt.messages import ChatMessage


def open_call(
    fields: GenerationFields,
    headers: Headers,
    services: Services,
    *,
    prefix: str,
    field: str,
    num_prompts: int = 1,
    messages: Sequence[ChatMessage] = (),
) -> CallContext:
    """What is known of a call before its prompts are made.

    Args:
        prefix: What the call's id begins with.
        field: Where the prompts come from, in the client's words.
        messages: A conversation without a name is known by what it opens with.

    Raises:
        ApiError: 404 for a model that is not served here, 400 or 429 for too many choices.
    """
    session = conversation_hint(headers, fields.prompt_cache_key)
    return CallContext(
        call_id=f"{prefix}-{secrets.token_hex(12)}",
        model=services.check_model(fields.model),
        field=field,
        limits=services.engine.limits,
        choices=checked_choices(fields, num_prompts, services.engine.limits),
        session=session,
        conversation=session or (opening_name(messages) if messages else ""),
        seed=services.seeds.randrange(MAX_SEED),
    )


def open_reply(
    fields: GenerationFields, call: Call, services: Services, *, with_logprobs: bool
) -> OpenAIReply:
    """How the call's answers begin."""
    options = fields.stream_options
    return OpenAIReply(
        call_id=call.call_id,
        model=call.model,
        created_s=int(services.clock.unix_time_s()),
        token_bytes=services.prompts.token_bytes,
        with_logprobs=with_logprobs,
        include_usage=options.include_usage if options else None,
    )
