"""How a stream of bytes becomes a timed result, in the shapes that servers send."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp
from aiohttp import web

from okibi.bench.replay.client import OnContent, StreamClient, StreamRequest
from okibi.bench.replay.records import RequestResult
from okibi.core.clock import WallClock

ENDPOINT = "/endpoint"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
TEXT = {"choices": [{"delta": {"content": "a"}}]}
FINISH = {"choices": [{"delta": {}, "finish_reason": "length"}]}
PLAIN_TEXT = {"choices": [{"text": "a"}]}
NO_TEXT = {"choices": [{"text": ""}]}
COUNTS = {"choices": [], "usage": USAGE}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def result_of(
    pieces: Sequence[bytes],
    *,
    status: int = 200,
    pause_s: float = 0.0,
    on_content: OnContent = lambda _: None,
) -> RequestResult:
    """Serve `pieces` as one body, `pause_s` apart, and read it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(pause_s)
        return response

    async def run() -> RequestResult:
        app = web.Application()
        app.router.add_post(ENDPOINT, answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with aiohttp.ClientSession() as session:
                client = StreamClient(
                    session, f"http://127.0.0.1:{port}{ENDPOINT}", WallClock(), 20.0
                )
                return await client.stream(StreamRequest(body={}, headers={}), on_content)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def kind_of(*pieces: bytes, status: int = 200) -> str | None:
    failure = result_of(pieces, status=status).failure
    return failure.kind if failure else None


def test_the_first_token_is_the_first_content_not_the_role():
    result = result_of([sse(ROLE), sse(TEXT), sse(TEXT), sse(FINISH, COUNTS)], pause_s=0.1)
    assert result.failure is None
    assert (result.prompt_tokens, result.completion_tokens, result.cached_tokens) == (9, 3, 4)
    assert result.first_token_s is not None
    assert result.last_token_s is not None
    assert result.start_s + 0.1 <= result.first_token_s <= result.last_token_s - 0.1
    assert result.last_token_s <= result.end_s


def test_events_may_be_cut_anywhere_and_lines_end_either_way():
    stream = sse(ROLE, TEXT, FINISH, COUNTS) + b"data: [DONE]\n\n"
    for body in (stream, stream.replace(b"\n", b"\r\n"), b": ping\n\n" + stream):
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        result = result_of(pieces)
        assert (result.failure, result.completion_tokens) == (None, 3)


def test_an_event_may_be_larger_than_any_buffer():
    huge = {"choices": [{"delta": {"content": "x" * 500_000}}]}
    assert kind_of(sse(huge, FINISH)) is None


def test_thoughts_and_tool_calls_count_as_tokens():
    for delta in ({"reasoning_content": "hm"}, {"tool_calls": [{"index": 0}]}):
        assert result_of([sse({"choices": [{"delta": delta}]}, FINISH)]).first_token_s is not None


def test_a_plain_completion_has_texts_in_place_of_deltas():
    result = result_of([sse(NO_TEXT), sse(PLAIN_TEXT), sse(NO_TEXT, FINISH, COUNTS)], pause_s=0.1)
    assert result.failure is None
    assert result.first_token_s is not None
    assert result.first_token_s == result.last_token_s
    assert result.start_s + 0.1 <= result.first_token_s <= result.end_s - 0.1


def test_each_event_with_content_is_told_as_it_comes():
    times: list[float] = []
    pieces = [sse(ROLE), sse(TEXT), sse(TEXT), sse(PLAIN_TEXT, FINISH, COUNTS)]
    result = result_of(pieces, pause_s=0.05, on_content=times.append)
    assert len(times) == 3
    assert times == sorted(times)
    assert (times[0], times[-1]) == (result.first_token_s, result.last_token_s)


def test_what_is_not_an_answer_has_its_kind():
    assert kind_of(sse(TEXT)) == "truncated"
    assert kind_of(sse(TEXT, {"error": {"message": "died"}})) == "stream_error"
    assert kind_of(b"data: {broken\n\n") == "stream_error"
    assert kind_of(sse(FINISH)) == "no_tokens"
    assert kind_of(b"busy", status=503) == "http_503"
    assert kind_of(b'{"error": {"code": "context_length_exceeded"}}', status=400) == (
        "context_overflow"
    )
    assert kind_of(b"bad temperature", status=400) == "http_400"


def test_tokens_without_text_are_an_answer():
    """With `ignore_eos` a reply may consist of special tokens alone."""
    result = result_of([sse(ROLE, FINISH, COUNTS)])
    assert (result.failure, result.first_token_s, result.completion_tokens) == (None, None, 3)


def test_long_error_pages_are_shortened_to_one_line():
    failure = result_of([b"<html>\n" + b"oops " * 1000], status=502).failure
    assert failure is not None
    assert len(failure.message) <= 300
    assert "\n" not in failure.message
