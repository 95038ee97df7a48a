"""`POST /tokenize` and `POST /detokenize`, in vLLM's shapes.

Counting goes the way of a real call (same template, same tokenizer) and never touches the engine's
queue.
"""

from array import array
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from okibi.core.token_source import PackedTokens
from okibi.server.http.errors import invalid
from okibi.server.http.prompts import encode_text, pack_ids, render_chat
from okibi.server.http.schemas import DetokenizeBody, TokenizeBody, decode_body
from okibi.server.http.services import Services


class TokenizeEndpoint:
    """Text to ids and back."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def tokenize(self, request: Request) -> Response:
        with self._services.lifecycle.call():
            async with self._services.bodies.read(request) as body:
                answer = await self._services.in_worker(lambda: self._tokenize(body))
        return Response(answer, media_type="application/json")

    async def detokenize(self, request: Request) -> Response:
        with self._services.lifecycle.call():
            async with self._services.bodies.read(request) as body:
                answer = await self._services.in_worker(lambda: self._detokenize(body))
        return Response(answer, media_type="application/json")

    def _tokenize(self, body: bytes) -> bytes:
        fields = decode_body(body, TokenizeBody)
        self._services.check_model(fields.model)
        prompt = self._prompt(fields)
        answer: dict[str, Any] = {
            "count": len(prompt),
            "max_model_len": self._services.engine.limits.max_model_len,
            "tokens": list(array("i", prompt.packed)),
            "token_strs": None,
        }
        if fields.return_token_strs:
            answer["token_strs"] = self._services.prompts.token_strings(prompt)
        return msgspec.json.encode(answer)

    def _prompt(self, fields: TokenizeBody) -> PackedTokens:
        if fields.messages is not None:
            return render_chat(
                fields,
                self._services,
                add_generation_prompt=fields.add_generation_prompt is not False,
            )
        if fields.prompt is None:
            raise invalid("give a prompt or messages", "prompt")
        return encode_text(
            fields.prompt,
            self._services,
            add_special_tokens=fields.add_special_tokens is not False,
        )

    def _detokenize(self, body: bytes) -> bytes:
        fields = decode_body(body, DetokenizeBody)
        self._services.check_model(fields.model)
        pack_ids(fields.tokens, self._services.engine.limits, "tokens")
        return msgspec.json.encode({"prompt": self._services.prompts.decode(fields.tokens)})
