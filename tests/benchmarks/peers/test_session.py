"""A whole server session against a small server that speaks as much of the API as is measured."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.cases import DecodeCase, PrefillCase, StreamsCase
from benchmarks.peers.launch import free_port
from benchmarks.peers.prompts import PromptSource
from benchmarks.peers.records import START_UP, CaseRecord
from benchmarks.peers.rounds import ServerRun
from benchmarks.peers.servers import HOST, ServerSpec
from benchmarks.peers.session import ServerSession
from benchmarks.peers.variants import OKIBI_BF16
from okibi.core.clock import WallClock

SERVER = """
import asyncio, json, os, sys
from aiohttp import web

async def complete(request):
    body = await request.json()
    with open(sys.argv[2], "a") as file:
        file.write(json.dumps(body) + "\\n")
    if len(body["prompt"]) == 13:
        request.transport.close()
        asyncio.get_running_loop().call_later(0.5, os._exit, 1)
        await asyncio.sleep(60)
    response = web.StreamResponse()
    await response.prepare(request)
    async def send(event):
        await response.write(b"data: " + json.dumps(event).encode() + b"\\n\\n")
        await asyncio.sleep(0.002)
    for _ in range(body["max_tokens"]):
        await send({"choices": [{"text": "x"}]})
    await send({"choices": [{"text": "", "finish_reason": "length"}]})
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": body["max_tokens"]}
    usage["prompt_tokens_details"] = {"cached_tokens": 5 if len(body["prompt"]) == 77 else 0}
    await send({"choices": [], "usage": usage})
    await response.write(b"data: [DONE]\\n\\n")
    return response

async def ready(request):
    return web.Response()

app = web.Application()
app.add_routes([web.post("/v1/completions", complete), web.get("/ready", ready)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""

PREFILL = PrefillCase(num_tokens=50, repeats=3)
CACHED = PrefillCase(num_tokens=77, repeats=2)
DECODE = DecodeCase(context=20, num_output=9, repeats=2)
STREAMS = StreamsCase(num_streams=3, context=10, num_output=12, repeats=1)
ENDLESS = DecodeCase(context=20, num_output=100_000, repeats=2)
DEADLY = PrefillCase(num_tokens=13, repeats=1)


def measured(folder: Path, *cases, skipped: frozenset[str] = frozenset()):
    """Records by case, and the bodies that the server was sent."""
    spec, requests = spec_of(folder)
    return _measure(spec, folder, cases, skipped), sent(requests)


def spec_of(folder: Path) -> tuple[ServerSpec, Path]:
    """The server, and the file in which it notes what it is sent."""
    port, requests = free_port(), folder / "requests"
    spec = ServerSpec(
        command=(sys.executable, "-c", SERVER, str(port), str(requests)),
        environment={},
        url=f"http://{HOST}:{port}",
        ready_path="/ready",
    )
    return spec, requests


def sent(requests: Path) -> list[dict[str, Any]]:
    lines = requests.read_text().splitlines() if requests.exists() else []
    return [json.loads(line) for line in lines]


def _measure(spec, folder: Path, cases, skipped: frozenset[str]) -> dict[str, CaseRecord]:
    records: list[CaseRecord] = []
    session = ServerSession(PromptSource("run", 5000), folder, WallClock(), records.append)
    run = ServerRun(round=1, variant=OKIBI_BF16, cases=cases)
    asyncio.run(session.measure(run, spec, folder / "log", skipped))
    return {record.case: record for record in records}


def test_every_case_is_recorded_with_a_value_a_repeat(tmp_path):
    records, _ = measured(tmp_path, PREFILL, DECODE, STREAMS)
    assert [len(records[case.name].values["tok_per_s"]) for case in (PREFILL, DECODE, STREAMS)] == [
        3,
        2,
        1,
    ]
    assert not any(record.problem for record in records.values())
    assert all((record.pss_bytes or 0) > 0 for record in records.values())
    (start_s,), (token_s,) = records[START_UP].values.values()
    assert 0 < start_s < token_s


def test_prompts_are_new_for_each_repeat_but_one_for_a_context(tmp_path):
    _, bodies = measured(tmp_path, PREFILL, DECODE, STREAMS)
    prompts = [tuple(body["prompt"]) for body in bodies]
    prefills = [prompt for prompt in prompts if len(prompt) == PREFILL.num_tokens]
    decodes = [prompt for prompt in prompts if len(prompt) == DECODE.context]
    assert len(decodes) == 2
    assert len(set(decodes)) == 1
    assert len({prompt[:4] for prompt in prompts}) == len(prompts) - 1
    assert len(prefills) == PREFILL.repeats


def test_a_prompt_that_was_cached_is_a_problem_and_no_value(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.session.END_TIMEOUT_S", 0.1)
    records, _ = measured(tmp_path, CACHED)
    assert records[CACHED.name].values == {}
    assert records[CACHED.name].problem == "5 tokens of a new prompt were cached"


def test_what_is_skipped_is_not_sent(tmp_path):
    records, bodies = measured(tmp_path, PREFILL, DECODE, skipped=frozenset({PREFILL.name}))
    assert set(records) == {START_UP, DECODE.name}
    assert PREFILL.num_tokens not in {len(body["prompt"]) for body in bodies}


def test_a_server_that_dies_costs_its_case_and_leaves_the_rest_to_a_resumed_run(tmp_path):
    records, _ = measured(tmp_path, PREFILL, DEADLY, DECODE)
    assert set(records) == {START_UP, PREFILL.name, DEADLY.name}
    assert records[DEADLY.name].values == {}
    assert "the server has ended" in (records[DEADLY.name].problem or "")


def test_a_cancelled_measurement_ends_at_once_and_records_nothing_half_done(tmp_path):
    spec, requests = spec_of(tmp_path)
    records: list[CaseRecord] = []

    async def cancel_amid_the_stream() -> None:
        session = ServerSession(PromptSource("run", 5000), tmp_path, WallClock(), records.append)
        run = ServerRun(round=1, variant=OKIBI_BF16, cases=(ENDLESS, PREFILL))
        task = asyncio.create_task(session.measure(run, spec, tmp_path / "log"))
        while len(sent(requests)) < 2:
            assert not task.done()
            await asyncio.sleep(0.02)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_amid_the_stream())
    assert [record.case for record in records] == [START_UP]
    assert len(sent(requests)) == 2


def test_a_server_that_does_not_start_is_a_problem_of_each_case(tmp_path):
    spec = ServerSpec(
        command=(sys.executable, "-c", "raise SystemExit('no such weights')"),
        environment={},
        url=f"http://{HOST}:{free_port()}",
        ready_path="/ready",
    )
    records = _measure(spec, tmp_path, (PREFILL, DECODE), frozenset())
    assert set(records) == {PREFILL.name, DECODE.name}
    assert all("no such weights" in (record.problem or "") for record in records.values())
