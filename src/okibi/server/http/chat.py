"""`POST /v1/chat/completions`.

Owns what is particular to chat on the way in; submitting and answering are `generate`'s.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from okibi.core.sampling import MAX_LOGPROBS
from okibi.core.token_source import PackedTokens
from okibi.server.doctor.diagnosis import diagnose
from okibi.server.http.call import Call, build_call
from okibi.server.http.chat_format import ChatFormat
from okibi.server.http.errors import invalid
from okibi.server.http.generate import generate
from okibi.server.http.openai_call import open_call, open_reply
from okibi.server.http.prompts import render_chat
from okibi.server.http.reply_format import ReplyFormat
from okibi.server.http.schemas import ChatBody, decode_body
from okibi.server.http.services import Services
from okibi.server.prompt.messages import ChatMessage


class ChatEndpoint:
    """Chat completions of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def post(self, request: Request) -> Response:
        return await generate(request, self._services, self._prepare)

    def _prepare(self, body: bytes, request: Request) -> tuple[Call, ReplyFormat]:
        services = self._services
        fields = decode_body(body, ChatBody)
        _refuse_forced_tools(fields)
        context = open_call(
            fields,
            request.headers,
            services,
            prefix="chatcmpl",
            field="messages",
            messages=fields.messages,
        )
        prompt = render_chat(fields, services, add_generation_prompt=True)
        max_tokens, renamed = fields.max_tokens, {}
        if fields.max_completion_tokens is not None:
            max_tokens = fields.max_completion_tokens
            renamed = {"max_tokens": "max_completion_tokens"}
        call = build_call(
            fields,
            [prompt],
            context,
            max_tokens=max_tokens,
            logprobs=_num_logprobs(fields),
            renamed={**renamed, "logprobs": "top_logprobs"},
        )
        if fields.cache_diagnostics:
            call = self._diagnose(call, prompt, fields)
        reply = open_reply(fields, call, services, with_logprobs=bool(fields.logprobs))
        return call, ChatFormat(reply)

    def _diagnose(self, call: Call, prompt: PackedTokens, fields: ChatBody) -> Call:
        services = self._services

        def render_prefix(messages: Sequence[ChatMessage]) -> PackedTokens:
            start = msgspec.structs.replace(fields, messages=list(messages))
            return render_chat(start, services, add_generation_prompt=False)

        diagnosis = diagnose(services.history, call.session, prompt, fields.messages, render_prefix)
        return replace(call, diagnosis=diagnosis)


def _num_logprobs(fields: ChatBody) -> int | None:
    if not fields.logprobs:
        if fields.top_logprobs:
            raise invalid("top_logprobs needs logprobs to be true", "top_logprobs")
        return None
    num_top = fields.top_logprobs or 0
    if not 0 <= num_top <= MAX_LOGPROBS:
        raise invalid(f"top_logprobs must be between 0 and {MAX_LOGPROBS}", "top_logprobs")
    return num_top


def _refuse_forced_tools(fields: ChatBody) -> None:
    if fields.tool_choice not in (None, "auto", "none"):
        raise invalid("tool_choice must be 'auto' or 'none': calls cannot be forced", "tool_choice")
