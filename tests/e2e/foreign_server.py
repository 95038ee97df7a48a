"""A small OpenAI-compatible server that is not okibi: the other side of the bench tests.

It streams filler text, counts tokens as words and line breaks (or with a given tokenizer) and keeps
an unbounded prefix cache of 16-token blocks, so that hit rates can be checked against an
independent account. Run as a script it serves one model until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from tokenizers import Tokenizer

BLOCK = 16
WORDS = re.compile(r"\n|[^\s]+")

Tokenize = Callable[[str], list[str]]


@dataclass(kw_only=True)
class ForeignConfig:
    model: str = "foreign-1"
    max_context: int | None = 8192
    token_s: float = 0.0
    prefill_s: float = 0.0
    api_key: str | None = None
    has_models: bool = True
    has_tokenize: bool = True
    sends_usage: bool = True
    sends_cached: bool = True
    honours_length: bool = True
    fails: Callable[[int], tuple[int, str] | None] = lambda number: None
    breaks_stream: Callable[[int], bool] = lambda number: False
    stalls: Callable[[int], bool] = lambda number: False
    tokenize: Tokenize = WORDS.findall


@dataclass(kw_only=True)
class Seen:
    """One chat request as the server saw it; times of `time.monotonic`."""

    body: dict[str, Any]
    headers: dict[str, str]
    start: float
    end: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def session(self) -> str:
        return self.headers["x-correlation-id"]


@dataclass
class ForeignServer:
    """The ASGI application, and what it has seen."""

    config: ForeignConfig
    seen: list[Seen] = field(default_factory=list)
    cache: set[int] = field(default_factory=set)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        raw = b""
        more = True
        while more:
            message = await receive()
            raw += message.get("body", b"")
            more = message.get("more_body", False)
        body = json.loads(raw) if raw else {}
        await self._route(scope["path"], headers, body, send)

    async def _route(self, path: str, headers: dict[str, str], body: Any, send: Any) -> None:
        key = self.config.api_key
        if key and headers.get("authorization") != f"Bearer {key}":
            await _json(send, 401, {"error": {"message": "no key"}})
        elif path == "/v1/models" and self.config.has_models:
            model: dict[str, Any] = {"id": self.config.model, "object": "model"}
            if self.config.max_context:
                model["max_model_len"] = self.config.max_context
            await _json(send, 200, {"object": "list", "data": [model]})
        elif path == "/tokenize" and self.config.has_tokenize:
            tokens = list(range(len(self.config.tokenize(body["prompt"]))))
            await _json(send, 200, {"tokens": tokens, "count": len(tokens)})
        elif path == "/v1/chat/completions":
            await self._chat(headers, body, send)
        else:
            await _json(send, 404, {"error": {"message": "not found"}})

    async def _chat(self, headers: dict[str, str], body: dict[str, Any], send: Any) -> None:
        seen = Seen(body=body, headers=headers, start=time.monotonic())
        self.seen.append(seen)
        number = len(self.seen) - 1
        tokens = self._prompt(body["messages"])
        seen.prompt_tokens = len(tokens)
        limit, asked = self.config.max_context, body["max_completion_tokens"]
        refusal = self.config.fails(number)
        if limit and len(tokens) + asked > limit:
            refusal = 400, f"This model's maximum context length is {limit} tokens"
        if refusal:
            seen.end = time.monotonic()
            await _json(send, refusal[0], {"error": {"message": refusal[1]}})
            return
        seen.cached_tokens = self._look_up(tokens)
        await asyncio.sleep(self.config.prefill_s)
        await self._stream(seen, asked, send, number)
        seen.end = time.monotonic()

    async def _stream(self, seen: Seen, asked: int, send: Any, request: int) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        num_tokens = asked if self.config.honours_length else max(1, asked // 2)
        await _event(send, {"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
        if self.config.stalls(request):
            await asyncio.Event().wait()
        for number in range(num_tokens):
            if number == num_tokens // 2 and self.config.breaks_stream(request):
                await _event(send, {"error": {"message": "engine died", "code": 500}})
                break
            await asyncio.sleep(self.config.token_s)
            await _event(send, {"choices": [{"index": 0, "delta": {"content": "ok "}}]})
        else:
            await _event(send, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            if self.config.sends_usage:
                await _event(send, {"choices": [], "usage": self._usage(seen, num_tokens)})
            await _data(send, "[DONE]")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _usage(self, seen: Seen, num_tokens: int) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": seen.prompt_tokens,
            "completion_tokens": num_tokens,
            "total_tokens": seen.prompt_tokens + num_tokens,
        }
        if self.config.sends_cached:
            usage["prompt_tokens_details"] = {"cached_tokens": seen.cached_tokens}
        return usage

    def _prompt(self, messages: list[dict[str, str]]) -> list[str]:
        """Two template tokens a message and one at the end."""
        tokens: list[str] = []
        for message in messages:
            tokens += [f"<{message['role']}>", *self.config.tokenize(message["content"]), "<end>"]
        return [*tokens, "<assistant>"]

    def _look_up(self, tokens: list[str]) -> int:
        chain, num_hit, missed = 0, 0, False
        for start in range(0, len(tokens) - BLOCK, BLOCK):  # never the whole prompt
            chain = hash((chain, tuple(tokens[start : start + BLOCK])))
            missed = missed or chain not in self.cache
            num_hit += 0 if missed else BLOCK
            self.cache.add(chain)
        return num_hit


async def _json(send: Any, status: int, content: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


async def _event(send: Any, content: Any) -> None:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    await _data(send, json.dumps(chunk | content))


async def _data(send: Any, text: str) -> None:
    body = f"data: {text}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


@contextlib.contextmanager
def foreign_server(config: ForeignConfig | None = None) -> Iterator[tuple[str, ForeignServer]]:
    """Serve on a free loopback port in a thread; yields the address and the application."""
    app = ForeignServer(config or ForeignConfig())
    listener = socket.create_server(("127.0.0.1", 0))
    uvicorn_config = uvicorn.Config(app, log_level="warning", lifespan="off")
    server = uvicorn.Server(uvicorn_config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", app
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(timeout=10)
        listener.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8199)
    parser.add_argument("--tokenizer")
    parser.add_argument("--token-s", type=float, default=0.005)
    arguments = parser.parse_args()
    config = ForeignConfig(token_s=arguments.token_s)
    if arguments.tokenizer:
        tokenizer = Tokenizer.from_file(arguments.tokenizer)
        config.tokenize = lambda text: tokenizer.encode(text, add_special_tokens=False).tokens
    uvicorn.run(ForeignServer(config), port=arguments.port, log_level="warning", lifespan="off")


if __name__ == "__main__":
    main()
