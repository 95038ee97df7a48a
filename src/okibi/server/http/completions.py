"""`POST /v1/completions`: a text or token ids to go on with, or several.

Owns what is particular to completions on the way in; submitting and answering are `generate`'s.
"""

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from okibi.core.sampling import MAX_LOGPROBS
from okibi.core.token_source import PackedTokens
from okibi.server.doctor.diagnosis import diagnose
from okibi.server.http.call import Call, build_call
from okibi.server.http.completion_format import CompletionFormat
from okibi.server.http.errors import invalid
from okibi.server.http.generate import generate
from okibi.server.http.openai_call import open_call, open_reply
from okibi.server.http.prompts import encode_text, pack_ids
from okibi.server.http.reply_format import ReplyFormat
from okibi.server.http.schemas import CompletionBody, decode_body
from okibi.server.http.services import Services

DEFAULT_MAX_TOKENS = 16
MAX_PROMPTS = 128


class CompletionEndpoint:
    """Text completions of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def post(self, request: Request) -> Response:
        return await generate(request, self._services, self._prepare)

    def _prepare(self, body: bytes, request: Request) -> tuple[Call, ReplyFormat]:
        services = self._services
        fields = decode_body(body, CompletionBody)
        _refuse_unsupported(fields)
        given = _split_prompts(fields.prompt)
        if fields.cache_diagnostics and len(given) > 1:
            raise invalid("cache_diagnostics takes a single prompt", "cache_diagnostics")
        context = open_call(
            fields,
            request.headers,
            services,
            prefix="cmpl",
            field="prompt",
            num_prompts=len(given),
        )
        prompts = [self._prompt(prompt, fields) for prompt in given]
        call = build_call(
            fields,
            prompts,
            context,
            max_tokens=DEFAULT_MAX_TOKENS if fields.max_tokens is None else fields.max_tokens,
            logprobs=fields.logprobs,
            renamed={},
        )
        if fields.cache_diagnostics:
            found = diagnose(services.history, call.session, prompts[0])
            call = replace(call, diagnosis=found)
        reply = open_reply(fields, call, services, with_logprobs=fields.logprobs is not None)
        return call, CompletionFormat(reply)

    def _prompt(self, prompt: str | Sequence[int], fields: CompletionBody) -> PackedTokens:
        if isinstance(prompt, str):
            packed = encode_text(
                prompt,
                self._services,
                add_special_tokens=fields.add_special_tokens is not False,
            )
        else:
            packed = pack_ids(prompt, self._services.engine.limits, "prompt")
        if not len(packed):
            raise invalid("prompt must have at least one token", "prompt")
        return packed


def _split_prompts(prompt: str | Sequence[str | int | list[int]]) -> list[str | list[int]]:
    """The prompts of a request: one text, one list of ids, or a list of texts or lists."""
    if isinstance(prompt, str):
        return [prompt]
    ids = [item for item in prompt if isinstance(item, int)]
    if ids and len(ids) == len(prompt):
        return [ids]
    if ids or not prompt:
        raise invalid("prompt must be a text, token ids, or a list of either", "prompt")
    if len(prompt) > MAX_PROMPTS:
        raise invalid(f"prompt takes at most {MAX_PROMPTS} prompts", "prompt")
    return [item for item in prompt if not isinstance(item, int)]


def _refuse_unsupported(fields: CompletionBody) -> None:
    if fields.echo:
        raise invalid("echo is not supported", "echo")
    if fields.suffix:
        raise invalid("suffix is not supported", "suffix")
    if fields.best_of is not None and fields.best_of != (fields.n or 1):
        raise invalid("best_of is not supported; use n", "best_of")
    if fields.logprobs is not None and not 0 <= fields.logprobs <= MAX_LOGPROBS:
        raise invalid(f"logprobs must be between 0 and {MAX_LOGPROBS}", "logprobs")
