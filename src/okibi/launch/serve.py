"""`okibi serve`: the server's command.

The flags are `ServeOptions`; what is heavy is imported once they are known to be good.
"""

import typer

from okibi.core.command_options import option_command
from okibi.launch.serve_options import ServeOptions


def run(options: ServeOptions) -> None:
    """Serve a model over the OpenAI API.

    Without a model it fetches SmolLM2-135M-Instruct, which runs anywhere. Once
    up, it prints what to try next.

    Answers POST /v1/chat/completions, /v1/completions, /tokenize, /detokenize,
    and GET /v1/models; /health, /ready, /progress and /metrics are for
    operators. Ctrl-C lets running requests finish, a second one ends them.
    """
    from okibi.launch.server_process import run_server

    raise typer.Exit(run_server(options))


serve = option_command(ServeOptions, run)
