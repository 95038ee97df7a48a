"""The `okibi bench` commands. Thin: options in, one call, a table out, an exit code.

Exit codes: 0 done, 1 the replay failed (too many errors, or not one good request), 2 bad options
or an unusable server, 130 interrupted. Must never import the heavy parts before a command runs.
"""

from __future__ import annotations

import typer

from okibi.bench.generate import GenerateOptions
from okibi.bench.replay_options import ReplayOptions
from okibi.core.command_options import option_command

app = typer.Typer(help="Write agent workloads and replay them.", no_args_is_help=True)


def generate(options: GenerateOptions) -> None:
    """Write synthetic agent sessions in the Weka trace format.

    Defaults fit a model with a context of 8,192 tokens. Sizes are medians.
    """
    from okibi.bench.generate import write_traces

    summary = write_traces(options)
    typer.echo(
        f"{summary.num_sessions} sessions in {options.out_dir}: {summary.num_turns} turns, "
        f"{summary.num_forks} forks, {summary.num_subagents} subagents, "
        f"{summary.input_tokens:,} input and {summary.output_tokens:,} output tokens, longest "
        f"context {summary.peak_context_tokens:,}, theoretical hit rate "
        f"{summary.theoretical_hit_share:.1%}\n"
        f"replay them: okibi bench replay {options.out_dir} --url http://127.0.0.1:8000"
    )


def replay(options: ReplayOptions) -> None:
    """Replay agent sessions against an OpenAI-compatible server, closed loop.

    Each turn waits for the one before and the recorded gap; forks and subagents run beside their
    parent. Ctrl-C ends early and still reports.
    """
    import asyncio

    from rich.console import Console

    from okibi.bench import report
    from okibi.bench.run import run_replay
    from okibi.core.clock import WallClock

    run = asyncio.run(run_replay(options, WallClock(), Console(stderr=True)))
    report.print_report(run.report, Console())
    if options.json_file is not None:
        report.write_json(run.report, options.json_file)
    report.write_folder(run.report, run.records, options.out)
    typer.echo(f"written to {options.out}")
    raise typer.Exit(_exit_code(run.report.stop_reason, run.report.metrics.num_ok))


def _exit_code(stop_reason: str, num_ok: int) -> int:
    if stop_reason == "interrupted":
        return 130
    return 1 if stop_reason == "errors" or num_ok == 0 else 0


app.command("generate")(option_command(GenerateOptions, generate))
app.command("replay")(option_command(ReplayOptions, replay))
