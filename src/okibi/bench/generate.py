"""`okibi bench generate`: writes synthetic sessions, one JSON file each.

Owns the command's flags and the folder it writes. Must never mix its sessions with others: what
is in a folder is what a replay of the folder plays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from okibi.bench.workload.summary import WorkloadSummary, summarize
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.trace import encode_trace
from okibi.bench.workload.tree import build_tree
from okibi.core.errors import ConfigError, OkibiError

_DEFAULTS = SyntheticConfig()


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateOptions:
    """Flags of `okibi bench generate`. Sizes are medians; draws lie within a factor of 4."""

    out_dir: Annotated[Path, Argument(help="Folder for the traces; made if missing.")]
    sessions: Annotated[int, Option(help="Sessions to write.")] = _DEFAULTS.num_sessions
    seed: Annotated[int, Option(help="Same seed and options, same files.")] = _DEFAULTS.seed
    turns: Annotated[int, Option(help="Turns of a session's main agent.")] = _DEFAULTS.num_turns
    tool_tokens: Annotated[int, Option(help="Tool definitions, a multiple of 64.")] = (
        _DEFAULTS.tool_tokens
    )
    system_tokens: Annotated[int, Option(help="System prompt, a multiple of 64.")] = (
        _DEFAULTS.system_tokens
    )
    task_tokens: Annotated[int, Option(help="A task, first user message of an agent.")] = (
        _DEFAULTS.task_tokens
    )
    tool_result_tokens: Annotated[int, Option(help="One tool result.")] = (
        _DEFAULTS.tool_result_tokens
    )
    output_tokens: Annotated[int, Option(help="One reply.")] = _DEFAULTS.output_tokens
    tool_gap: Annotated[float, Option(help="Seconds a tool takes.")] = _DEFAULTS.tool_gap_s
    think_gap: Annotated[float, Option(help="Seconds a person takes.")] = _DEFAULTS.think_gap_s
    end_turn_probability: Annotated[
        float, Option(help="Chance that a turn hands over to the person.")
    ] = _DEFAULTS.end_turn_probability
    fork_probability: Annotated[
        float, Option(help="Chance per tool turn of workers that share the context.")
    ] = _DEFAULTS.fork_probability
    subagent_probability: Annotated[
        float, Option(help="Chance per tool turn of a subagent with fresh context.")
    ] = _DEFAULTS.subagent_probability
    max_context: Annotated[
        int, Option(help="Largest prompt plus reply, chat template excluded.")
    ] = _DEFAULTS.max_context_tokens
    shared_system: Annotated[
        bool,
        Option(
            help="Whether the sessions send the same tools and system text "
            "(kept in the trace's totals.system_scope)."
        ),
    ] = _DEFAULTS.shared_system

    @property
    def config(self) -> SyntheticConfig:
        """The generator's configuration."""
        return SyntheticConfig(
            num_sessions=self.sessions,
            seed=self.seed,
            num_turns=self.turns,
            tool_tokens=self.tool_tokens,
            system_tokens=self.system_tokens,
            task_tokens=self.task_tokens,
            tool_result_tokens=self.tool_result_tokens,
            output_tokens=self.output_tokens,
            tool_gap_s=self.tool_gap,
            think_gap_s=self.think_gap,
            end_turn_probability=self.end_turn_probability,
            fork_probability=self.fork_probability,
            subagent_probability=self.subagent_probability,
            max_context_tokens=self.max_context,
            shared_system=self.shared_system,
        )


def write_traces(options: GenerateOptions) -> WorkloadSummary:
    """Write the sessions. Raises ConfigError for bad options or a folder that holds others."""
    config = options.config
    traces = [generate_trace(config, index) for index in range(config.num_sessions)]
    names = {f"{trace.id}.json" for trace in traces}
    try:
        options.out_dir.mkdir(parents=True, exist_ok=True)
        others = [file.name for file in options.out_dir.glob("*.json") if file.name not in names]
        if others:
            raise ConfigError(
                f"{options.out_dir} already holds other traces ({min(others)}); "
                "a replay would mix them in: choose an empty folder"
            )
        for trace in traces:
            (options.out_dir / f"{trace.id}.json").write_bytes(encode_trace(trace))
    except OSError as error:
        raise OkibiError(f"cannot write to {options.out_dir}: {error}") from None
    return summarize([build_tree(trace) for trace in traces])
