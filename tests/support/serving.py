"""The whole server in this process: real HTTP, real link, real replica, a checking executor.

Only the model is made up: a `ScriptedModel` says what a test wants said. Steps can be slowed,
frozen or broken from outside, at the executor's seam.
"""

import asyncio
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from okibi.control.replica import Replica
from okibi.core.clock import WallClock
from okibi.core.errors import ExecutorError
from okibi.core.executor import Executor
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import StepOutput
from okibi.core.plan import BatchPlan
from okibi.server.doctor.history import PromptHistory
from okibi.server.engine_client import EngineClient, EngineLost
from okibi.server.engine_link import EngineLink
from okibi.server.engine_protocol import Failed, News, Ready
from okibi.server.http.app import make_app
from okibi.server.http.body import BodyReader
from okibi.server.http.latency import Latency
from okibi.server.http.lifecycle import Lifecycle
from okibi.server.http.services import ServerConfig, Services
from okibi.server.http_protocol import BoundedConfig, HttpLimits
from okibi.server.live_driver import LiveDriver
from okibi.server.prompt.assets import TextAssets
from okibi.server.prompt.prompt_maker import PromptMaker
from okibi.sim.checking import CheckingExecutor
from okibi.sim.fake_model import FakeModel
from tests.support.builders import make_config, make_layout
from tests.support.tiny_text import END_ID, VOCAB_SIZE, make_assets

MODEL = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel(FakeModel):
    """Says `script` over and over; without one, what the checking model says."""

    vocab_size: int = VOCAB_SIZE
    script: tuple[int, ...] = ()

    def sample(self, state: int, sampling: Any, num_output: int, stop_ids: Any) -> int:
        if self.script:
            return self.script[num_output % len(self.script)]
        # Not the explicit base: a slotted dataclass is a new class, which plain super() misses.
        return FakeModel.sample(self, state, sampling, num_output, stop_ids)


class HandledExecutor:
    """Another executor, held back or broken from outside."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        self._moving = threading.Event()
        self._moving.set()
        self._num_steps = 0
        self.step_s = 0.0
        self.fail_at_step: int | None = None

    def freeze(self) -> None:
        """Let no step end until `thaw`."""
        self._moving.clear()

    def thaw(self) -> None:
        self._moving.set()

    def allocate(self, layout: KVCacheLayout) -> None:
        self._inner.allocate(layout)

    def submit(self, plan: BatchPlan) -> None:
        self._inner.submit(plan)

    def collect(self) -> StepOutput:
        if self.step_s:
            threading.Event().wait(self.step_s)
        self._moving.wait()
        self._num_steps += 1
        if self.fail_at_step is not None and self._num_steps >= self.fail_at_step:
            raise ExecutorError("the device fell off the bus")
        return self._inner.collect()

    def close(self) -> None:
        self._inner.close()


@dataclass(kw_only=True)
class Setup:
    """What to serve. `script` are the tokens that every generation yields, again and again."""

    script: tuple[int, ...] = ()
    assets: TextAssets = field(default_factory=make_assets)
    num_pages: int = 512
    block_tokens: int = 16
    unit: int | None = None
    api_key: str | None = None
    keep_alive_s: float = 10.0
    progress_timeout_s: float = 60.0
    max_body_bytes: int = 64 << 20
    max_body_pause_s: float = 30.0
    limits: HttpLimits = field(default_factory=HttpLimits)
    replica: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class RunningServer:
    """A server that answers at `url`."""

    url: str
    executor: HandledExecutor
    replica: Replica
    services: Services

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def metric(self, name: str, **labels: str) -> float:
        """The value of one sample of `/metrics`."""
        key = self.services.config.api_key
        headers = {"x-api-key": key} if key else {}
        text = httpx.get(f"{self.url}/metrics", headers=headers).text
        for line in text.splitlines():
            if line.split("{")[0].split(" ")[0] == name and all(
                f'{label}="{value}"' in line for label, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        raise KeyError(name)


@contextmanager
def running_server(setup: Setup | None = None) -> Iterator[RunningServer]:
    """Serve in background threads until the block ends."""
    setup = setup or Setup()
    with tempfile.TemporaryDirectory(prefix="okibi-") as folder:
        engine = _Engine(setup, Path(folder))
        front = _Front(setup, Path(folder))
        engine.start()
        front.start()
        try:
            yield RunningServer(
                url=front.url,
                executor=engine.executor,
                replica=engine.replica,
                services=front.services,
            )
        finally:
            engine.executor.thaw()
            engine.stop()
            front.stop()


class _Engine:
    def __init__(self, setup: Setup, folder: Path) -> None:
        model = ScriptedModel(script=setup.script)
        layout = make_layout(
            num_pages=setup.num_pages, block_tokens=setup.block_tokens, unit=setup.unit
        )
        config = make_config(
            **({"eos_token_ids": (END_ID,), "max_num_batched_tokens": 256} | setup.replica)
        )
        self._config = config
        self.replica = Replica(config, layout)
        self.executor = HandledExecutor(CheckingExecutor(model=model))
        self.executor.allocate(layout)
        self._link = EngineLink(folder)
        self._layout = layout
        self._driver = LiveDriver(
            self.replica,
            self.executor,
            WallClock(),
            lambda outputs, stats: self._link.send(News(tuple(outputs), stats)),
        )
        self._thread = threading.Thread(target=self._run, name="engine")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._driver.stop()
        self._thread.join()

    def _run(self) -> None:
        self._link.receive_into(self._driver.post, self._driver.fail)
        self._link.send(
            Ready(
                max_model_len=self.replica.max_model_len,
                prefix_match_unit=self._layout.prefix_match_unit,
                pool_tokens=self._layout.max_tokens(),
                vocab_size=VOCAB_SIZE,
                eos_token_ids=(END_ID,),
                max_unfinished=self._config.max_unfinished,
                scheduling_policy=self._config.scheduling_policy,
                stats=self.replica.stats(),
            )
        )
        try:
            self._driver.run()
        except ExecutorError as error:
            self._link.send(Failed(str(error), is_config=False))
        finally:
            self._link.close()


class _Front:
    services: Services

    def __init__(self, setup: Setup, folder: Path) -> None:
        self._setup = setup
        self._folder = folder
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="front")

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(20)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _run(self) -> None:
        clock = WallClock()
        client = EngineClient(self._folder, clock)
        await client.wait_ready(lambda _: None)
        routing = asyncio.create_task(_route(client))
        self.services = _make_services(self._setup, client, clock)
        self._server = uvicorn.Server(
            BoundedConfig(make_app(self.services), self._setup.limits, flush_s=1)
        )
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            await asyncio.sleep(0.005)
        self._started.set()
        await serving
        routing.cancel()
        client.close()
        self.services.workers.shutdown(wait=False)


async def _route(client: EngineClient) -> None:
    try:
        await client.route()
    except EngineLost as error:
        client.lose(str(error))


def _make_services(setup: Setup, client: EngineClient, clock: WallClock) -> Services:
    config = ServerConfig(
        model_names=(MODEL, "alias"),
        api_key=setup.api_key,
        progress_timeout_s=setup.progress_timeout_s,
        keep_alive_s=setup.keep_alive_s,
        max_body_bytes=setup.max_body_bytes,
    )
    return Services(
        config=config,
        engine=client,
        prompts=PromptMaker(setup.assets, clock),
        history=PromptHistory(),
        workers=ThreadPoolExecutor(2),
        clock=clock,
        latency=Latency(),
        lifecycle=Lifecycle(),
        bodies=BodyReader(config.max_body_bytes, max_pause_s=setup.max_body_pause_s),
        seeds=random.Random(0),
        started_at_s=int(clock.unix_time_s()),
    )
