"""Flags of `okibi bench replay`, and the configurations they stand for.

Owns names, defaults and help texts. Must never check what the configurations check themselves:
a rule stands in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from okibi.bench.replay.scheduler import ReplayConfig
from okibi.bench.workload.load import LoadConfig
from okibi.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOptions:
    """Flags of `okibi bench replay`."""

    traces: Annotated[
        Path, Argument(help="Folder of *.json, one .json, or a .jsonl(.gz) of traces.")
    ]
    url: Annotated[str, Option(help="Address of an OpenAI-compatible server.")] = (
        "http://127.0.0.1:8000"
    )
    model: Annotated[
        str | None, Option(help="Model name to send; the first one served if left out.")
    ] = None
    api_key: Annotated[str | None, Option(help="Bearer token of the server.")] = None
    concurrency: Annotated[int, Option(help="Session trees played at a time (not requests).")] = 4
    duration: Annotated[
        float | None, Option(help="Seconds to start requests for, playing round and round.")
    ] = None
    max_turns: Annotated[int | None, Option(help="Requests to start, playing round and round.")] = (
        None
    )
    time_scale: Annotated[
        float, Option(help="Factor on recorded gaps; 0 replays without waiting.")
    ] = 1.0
    seed: Annotated[int, Option(help="Same seed, same text.")] = 0
    cache_bust: Annotated[
        bool, Option(help="Start each play's first user message with a fresh marker.")
    ] = True
    tokenizer: Annotated[
        Path | None, Option(help="tokenizer.json of the model, instead of /tokenize.")
    ] = None
    scale_tokens: Annotated[
        float, Option(help="Factor on recorded token counts, to fit a small model.")
    ] = 1.0
    max_context: Annotated[
        int | None, Option(help="Drop sessions with a larger prompt plus reply.")
    ] = None
    sessions: Annotated[int | None, Option(help="Use the first sessions only.")] = None
    timeout: Annotated[float, Option(help="Seconds after which a request counts as failed.")] = (
        1800.0
    )
    grace: Annotated[
        float, Option(help="Seconds that running requests get after the run's end.")
    ] = 30.0
    idle_cap: Annotated[float, Option(help="Longest time without any request, seconds.")] = 10.0
    tree_idle_cap: Annotated[
        float, Option(help="Longest time without a request of one session, seconds.")
    ] = 300.0
    json_file: Annotated[Path | None, Option("--json", help="Write the summary to this file.")] = (
        None
    )
    out: Annotated[
        Path, Option(help="Folder for summary.json and requests.jsonl, which are overwritten.")
    ] = Path("replay-report")

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise ConfigError("--timeout must be above 0")
        if not self.grace >= 0:
            raise ConfigError("--grace must not be negative")

    @property
    def replay_config(self) -> ReplayConfig:
        """The scheduler's configuration. Raises ConfigError."""
        return ReplayConfig(
            concurrency=self.concurrency,
            duration_s=self.duration,
            max_turns=self.max_turns,
            time_scale=self.time_scale,
            idle_cap_s=self.idle_cap,
            tree_idle_cap_s=self.tree_idle_cap,
        )

    @property
    def load_config(self) -> LoadConfig:
        """What to keep of the traces."""
        return LoadConfig(
            scale_tokens=self.scale_tokens,
            max_context_tokens=self.max_context,
            max_sessions=self.sessions,
        )
