"""The settings of `okibi serve`: one field, one flag.

Owns their defaults, their help and the checks that need neither model nor engine. Names and
meanings follow vLLM's flags where vLLM has the flag.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from typer import Argument, Option

from okibi.core.command_options import flag_name
from okibi.core.errors import ConfigError
from okibi.core.kernels import KernelChoice
from okibi.launch.model_catalog import DEFAULT_MODEL

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_HTTP, _MODEL, _MEMORY, _SCHEDULING = "HTTP", "Model", "KV cache", "Scheduling"


def parse_size(text: str) -> int:
    """Bytes of a size such as `2GiB`, `512MB` or `1073741824`.

    Raises:
        ConfigError: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a size; write it as 2GiB, 512MB or a number of bytes")
    number, unit, is_binary = match.groups()
    base = 1024 if is_binary else 1000
    return int(float(number) * base ** _POWERS[unit.upper()])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What one `okibi serve` does."""

    model: Annotated[
        str, Argument(help="A name from `okibi models list`, a Hugging Face folder or a GGUF file.")
    ] = DEFAULT_MODEL

    host: Annotated[
        str,
        Option(
            help="Address to listen on. Any but 127.0.0.1 opens the server to the network: set "
            "--api-key then.",
            rich_help_panel=_HTTP,
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Option(help="Port to listen on; 0 picks a free one.", rich_help_panel=_HTTP)
    ] = 8000
    api_key: Annotated[
        str | None,
        Option(
            help="Key that clients must send on every route but /health. If left out, "
            "OKIBI_API_KEY from the environment counts.",
            rich_help_panel=_HTTP,
        ),
    ] = None
    served_model_name: Annotated[
        list[str] | None,
        Option(
            help="Name under which clients ask for the model; may be given several times. If left "
            "out, the model's own name.",
            rich_help_panel=_HTTP,
        ),
    ] = None
    shutdown_timeout: Annotated[
        float,
        Option(help="Seconds that running requests get after SIGTERM.", rich_help_panel=_HTTP),
    ] = 30.0
    progress_timeout: Annotated[
        float,
        Option(
            help="Seconds without a finished step after which /progress answers 503.",
            rich_help_panel=_HTTP,
        ),
    ] = 60.0

    device: Annotated[str, Option(help="cpu, cuda or cuda:N.", rich_help_panel=_MODEL)] = "cpu"
    dtype: Annotated[
        str,
        Option(
            help="Type of weights, arithmetic and KV cache: auto, float32, bfloat16 or float16.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto"
    kernels: Annotated[
        KernelChoice,
        Option(
            help="What runs the model: native needs a CPU and the compiled part of okibi; "
            "reference is torch; auto is native where it can be had.",
            rich_help_panel=_MODEL,
        ),
    ] = KernelChoice.AUTO
    max_model_len: Annotated[
        int | None,
        Option(
            help="Longest sequence, prompt and output, in tokens. If left out, what the model was "
            "made for and the KV pool can hold.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    seed: Annotated[
        int | None,
        Option(help="Makes requests that bring no seed repeatable.", rich_help_panel=_MODEL),
    ] = None

    kv_cache_memory_bytes: Annotated[
        int | None,
        Option(
            help="Size of the KV pool, such as 2GiB. If left out, a share of the free memory.",
            parser=parse_size,
            metavar="SIZE",
            rich_help_panel=_MEMORY,
        ),
    ] = None
    block_size: Annotated[
        int, Option(help="Tokens of one block of the KV cache.", rich_help_panel=_MEMORY)
    ] = 16
    prefix_match_unit: Annotated[
        int | None,
        Option(
            help="Tokens of the unit in which cached prefixes are reused; divides --block-size. "
            "If left out, --block-size.",
            rich_help_panel=_MEMORY,
        ),
    ] = None

    max_num_seqs: Annotated[
        int, Option(help="Requests that run at the same time.", rich_help_panel=_SCHEDULING)
    ] = 64
    max_num_batched_tokens: Annotated[
        int, Option(help="Tokens computed in one step.", rich_help_panel=_SCHEDULING)
    ] = 512
    long_prefill_token_threshold: Annotated[
        int,
        Option(
            help="Most prompt tokens of one request in a step; 0 for no cap of its own.",
            rich_help_panel=_SCHEDULING,
        ),
    ] = 0
    scheduling_policy: Annotated[
        str,
        Option(
            help="fcfs, or priority: requests with a smaller `priority` first.",
            rich_help_panel=_SCHEDULING,
        ),
    ] = "fcfs"
    max_queued_requests: Annotated[
        int,
        Option(help="Requests that may wait; further ones get 429.", rich_help_panel=_SCHEDULING),
    ] = 256
    max_queued_tokens: Annotated[
        int,
        Option(
            help="Prompt tokens that may wait; requests beyond get 429.",
            rich_help_panel=_SCHEDULING,
        ),
    ] = 4_000_000
    max_inflight_steps: Annotated[
        int,
        Option(
            help="Steps handed to the device before the first has come back, 1 or 2.",
            rich_help_panel=_SCHEDULING,
        ),
    ] = 1

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise ConfigError(f"--port must be between 0 and 65535, not {self.port}")
        for name in ("shutdown_timeout", "max_queued_requests", "max_queued_tokens"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{flag_name(name)} must not be negative")
        for name in ("max_model_len", "prefix_match_unit", "kv_cache_memory_bytes", "block_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{flag_name(name)} must be at least 1, got {value}")
        if self.prefix_match_unit is not None and self.block_size % self.prefix_match_unit:
            raise ConfigError(
                f"--prefix-match-unit {self.prefix_match_unit} must divide --block-size "
                f"{self.block_size}"
            )
        if not self.progress_timeout > 0:
            raise ConfigError("--progress-timeout must be above 0")
