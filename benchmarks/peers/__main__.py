"""Measures okibi beside other engines: `python -m benchmarks.peers`, or `make bench-peers`.

Exit codes: 0 done, 1 some case gave no figure, 2 bad options or a failed set-up, 130 interrupted
(`--resume` goes on).
"""

from __future__ import annotations

import asyncio
import signal
import sys

import typer
from rich.console import Console

from benchmarks.peers.agents import kv_tokens
from benchmarks.peers.cases import select_cases
from benchmarks.peers.header import open_run
from benchmarks.peers.options import PeerOptions
from benchmarks.peers.records import RunHeader, done_keys, open_problems, read_records
from benchmarks.peers.rounds import ServerRun, plan_rounds
from benchmarks.peers.runner import RECORDS, Runner
from benchmarks.peers.servers import Peers
from benchmarks.peers.setup.llamacpp import install_llamacpp
from benchmarks.peers.setup.models import prepare_model
from benchmarks.peers.setup.steps import SetupSteps
from benchmarks.peers.setup.vllm import install_vllm
from benchmarks.peers.summary import figures
from benchmarks.peers.tables import print_run, to_json
from benchmarks.peers.variants import Peer, select_variants
from okibi.core.clock import WallClock
from okibi.core.command_options import option_command
from okibi.core.env import cache_dir
from okibi.core.errors import OkibiError

SUMMARY = "summary.json"

WIDTH_OF_A_FILE = 160
"""Columns where the output is not a terminal."""


def run(options: PeerOptions) -> None:
    """Measure okibi, vLLM and llama.cpp on the same weights, one server at a time.

    Sets the other engines up on first use (some 4 GB, half an hour). Run nothing else meanwhile.
    Ctrl-C ends a run, --resume goes on with it.
    """
    console = _console()
    try:
        clock = WallClock()
        cases = select_cases(options.suite, options.cases)
        variants = select_variants(options.only)
        header = open_run(options, clock)
        peers = _set_up(options, with_vllm=Peer.VLLM in {each.peer for each in variants})
        done = done_keys(read_records(options.out / RECORDS))
        plan = plan_rounds(variants, cases, options.num_rounds, done)
        runner = Runner(options.out, peers, header.nonce, console, clock)
        asyncio.run(_run_until_told(runner, plan))
    except OkibiError as error:
        console.print(f"[red]error:[/red] {error}", highlight=False)
        raise typer.Exit(2) from None
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    _report(options, header, console)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_OF_A_FILE)


def _set_up(options: PeerOptions, *, with_vllm: bool) -> Peers:
    home = cache_dir() / "peers"
    steps = SetupSteps(home / "setup.log", _console(), WallClock())
    vllm = install_vllm(home, steps) if with_vllm else None
    llamacpp = install_llamacpp(home, steps)
    return Peers(
        vllm=vllm,
        llamacpp=llamacpp,
        model=prepare_model(options.model, home, llamacpp, steps),
        kv_tokens=kv_tokens(options.suite),
        cache=home / "vllm-cache",
    )


async def _run_until_told(runner: Runner, plan: list[ServerRun]) -> None:
    """Measure until the end, Ctrl-C or SIGTERM; the running server is ended in any case."""
    task = asyncio.create_task(runner.run(plan))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await task


def _report(options: PeerOptions, header: RunHeader, console: Console) -> None:
    records = read_records(options.out / RECORDS)
    found = figures(records)
    print_run(records, found, console)
    summary = to_json(header, records, found)
    for file in filter(None, (options.out / SUMMARY, options.json_file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(summary)
    console.print(f"written to {options.out}", highlight=False)
    if any(not record.values for record in open_problems(records)):
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(option_command(PeerOptions, run))
    sys.exit(app())
