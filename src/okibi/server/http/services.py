"""What endpoints work with, put together once.

A plain bundle: no endpoint reaches for anything global.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from okibi.core.clock import Clock
from okibi.server.doctor.history import PromptHistory
from okibi.server.engine_client import EngineClient
from okibi.server.http.body import MAX_BODY_BYTES, BodyReader
from okibi.server.http.errors import ApiError
from okibi.server.http.latency import Latency
from okibi.server.http.lifecycle import Lifecycle
from okibi.server.prompt.prompt_maker import PromptMaker

T = TypeVar("T")
_COUNTING_FACTOR = 4
_MIN_COUNTED_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How the HTTP side behaves.

    Attributes:
        model_names: Names under which the model is served; the first is the one reported.
        api_key: What clients must present; None for no check.
        progress_timeout_s: After how long without a finished step `/progress` turns 503.
        keep_alive_s: Longest silence on a stream.
        max_body_bytes: Larger bodies are refused.
    """

    model_names: tuple[str, ...]
    api_key: str | None = None
    progress_timeout_s: float = 60.0
    keep_alive_s: float = 10.0
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Shared by all endpoints.

    Attributes:
        history: Prompts served before, to explain cache misses with.
        workers: Runs what would hold up the event loop.
        seeds: Draws the seeds of requests that bring none.
    """

    config: ServerConfig
    engine: EngineClient
    prompts: PromptMaker
    history: PromptHistory
    workers: Executor
    clock: Clock
    latency: Latency
    lifecycle: Lifecycle
    bodies: BodyReader
    seeds: Random
    started_at_s: int

    @property
    def counting_limit(self) -> int:
        """Where counting the tokens of an oversized prompt is given up."""
        return max(_COUNTING_FACTOR * self.engine.limits.max_model_len, _MIN_COUNTED_TOKENS)

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run `work` on a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self.workers, work)

    def check_model(self, name: str | None) -> str:
        """The name to answer with.

        Raises:
            ApiError: 404, for a model that is not served here.
        """
        names = self.config.model_names
        if name is None:
            return names[0]
        if name not in names:
            raise ApiError(
                404,
                f"The model {name!r} is not served here. Served: {', '.join(names)}.",
                param="model",
                code="model_not_found",
            )
        return name
