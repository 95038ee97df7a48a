"""The HTTP process: takes the port, starts the engine, serves.

Composes the parts of `okibi.server`; has no behaviour of its own beyond the order of start and
stop, and what is printed meanwhile.
"""

import asyncio
import os
import random
import secrets
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import typer
import uvloop

from okibi.core.clock import WallClock
from okibi.core.env import api_key
from okibi.core.errors import ConfigError
from okibi.launch.engine_child import EngineChild
from okibi.launch.engine_spec import EngineSpec, check_spec
from okibi.launch.model_catalog import ResolvedModel
from okibi.launch.model_pull import resolve_model
from okibi.launch.serve_options import ServeOptions
from okibi.launch.welcome import welcome
from okibi.server.doctor.history import PromptHistory
from okibi.server.engine_client import EngineClient, EngineLost
from okibi.server.engine_protocol import Ready
from okibi.server.http.app import make_app
from okibi.server.http.body import BodyReader
from okibi.server.http.latency import Latency
from okibi.server.http.lifecycle import Lifecycle
from okibi.server.http.services import ServerConfig, Services
from okibi.server.http_host import HttpHost
from okibi.server.prompt.assets import TextAssets
from okibi.server.prompt.load_assets import load_text_assets
from okibi.server.prompt.prompt_maker import PromptMaker

_MAX_WORKERS = 4
_MAX_LINK_FOLDER_BYTES = 90
_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


def run_server(options: ServeOptions) -> int:
    """Serve until stopped; returns the process's exit code.

    Raises:
        OkibiError: it cannot start as configured.
    """
    _check_key(options)
    with (
        _bind(options.host, options.port) as sock,
        tempfile.TemporaryDirectory(prefix="okibi-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        _check_link_folder(folder)
        check_spec(_engine_spec(options, Path(), Path()))
        model = resolve_model(options.model)
        return runner.run(_serve(options, model, Path(folder), sock))


def _check_key(options: ServeOptions) -> None:
    """Refuse keys that protect nothing or can never match; warn of an open door."""
    key = api_key() if options.api_key is None else options.api_key
    if key is not None and not (key and key.isascii() and key.isprintable()):
        raise ConfigError("--api-key must be one or more printable ASCII characters")
    if key is None and options.host not in _LOOPBACK_HOSTS:
        typer.echo(
            f"okibi: anyone who reaches {options.host} can use this server: set --api-key", err=True
        )


def _check_link_folder(folder: str) -> None:
    """The system bounds the length of a socket's path: 107 bytes on Linux, 103 on macOS."""
    if len(os.fsencode(folder)) > _MAX_LINK_FOLDER_BYTES:
        raise ConfigError(
            f"the path {folder} is too long for the engine's sockets: set TMPDIR to a shorter one"
        )


def _bind(host: str, port: int) -> socket.socket:
    """Take the port before anything slow happens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where it sees that the protocol is TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        # Listening here makes a second server fail now instead of after its model is loaded.
        sock.listen(0)
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error}; choose another with --port or --host"
        ) from None
    return sock


async def _serve(
    options: ServeOptions, model: ResolvedModel, folder: Path, sock: socket.socket
) -> int:
    clock = WallClock()
    started_at = clock.now()
    child = await EngineChild.start()
    client = EngineClient(folder, clock)
    try:
        assets = await asyncio.to_thread(load_text_assets, model.path)
        spec = _engine_spec(options, model.path, folder)
        await child.configure(msgspec.structs.replace(spec, eos_token_ids=assets.eos_token_ids))
        limits = await _wait_ready(client, child)
        services = _make_services(options, model.name, assets, client, clock)
        host = HttpHost(
            make_app(services),
            client,
            services.lifecycle,
            shutdown_timeout_s=options.shutdown_timeout,
            show=typer.echo,
        )
        name = services.config.model_names[0]
        seconds = clock.now() - started_at
        has_key = services.config.api_key is not None
        typer.echo(welcome(name, limits, _url(sock), seconds, has_key=has_key))
        reason = await host.run(sock, asyncio.create_task(_engine_end(client, child)))
        services.workers.shutdown(wait=False, cancel_futures=True)
    finally:
        client.close()
        await child.stop()
    if reason is not None:
        typer.echo(f"okibi: the engine is gone: {reason}", err=True)
        return 1
    return 0


def _engine_spec(options: ServeOptions, model: Path, folder: Path) -> EngineSpec:
    return EngineSpec(
        model=str(model),
        link_folder=str(folder),
        device=options.device,
        dtype=options.dtype,
        kernels=options.kernels,
        eos_token_ids=(),
        block_size=options.block_size,
        prefix_match_unit=options.prefix_match_unit,
        kv_cache_memory_bytes=options.kv_cache_memory_bytes,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        long_prefill_token_threshold=options.long_prefill_token_threshold,
        max_num_queued=options.max_queued_requests,
        max_num_queued_tokens=options.max_queued_tokens,
        scheduling_policy=options.scheduling_policy,
        max_inflight_steps=options.max_inflight_steps,
    )


async def _wait_ready(client: EngineClient, child: EngineChild) -> Ready:
    """Raises `OkibiError` if the engine does not come up."""
    ready = asyncio.create_task(client.wait_ready(typer.echo))
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        # The engine's own words may still be on their way.
        await asyncio.wait({ready}, timeout=1.0)
    if ready.done():
        ended.cancel()
        return ready.result()
    ready.cancel()
    raise EngineLost(f"the engine process ended while starting ({ended.result()})")


def _make_services(
    options: ServeOptions, name: str, assets: TextAssets, client: EngineClient, clock: WallClock
) -> Services:
    config = ServerConfig(
        model_names=tuple(options.served_model_name or [name]),
        api_key=api_key() if options.api_key is None else options.api_key,
        progress_timeout_s=options.progress_timeout,
    )
    num_workers = min(_MAX_WORKERS, os.cpu_count() or 1)
    seed = secrets.randbits(64) if options.seed is None else options.seed
    return Services(
        config=config,
        engine=client,
        prompts=PromptMaker(assets, clock),
        history=PromptHistory(),
        workers=ThreadPoolExecutor(num_workers, thread_name_prefix="okibi-prompt"),
        clock=clock,
        latency=Latency(),
        lifecycle=Lifecycle(),
        bodies=BodyReader(config.max_body_bytes),
        seeds=random.Random(seed),
        started_at_s=int(clock.unix_time_s()),
    )


async def _engine_end(client: EngineClient, child: EngineChild) -> str:
    """Route outputs until the engine is gone; returns why, in its own words if it had any."""
    routing = asyncio.create_task(client.route())
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({routing, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not routing.done():
        await asyncio.wait({routing}, timeout=0.2)
    ended.cancel()
    if routing.done():
        return str(routing.exception())
    routing.cancel()
    return f"its process ended unexpectedly ({ended.result()})"


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
