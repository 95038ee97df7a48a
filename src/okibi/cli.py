"""The `okibi` command: one thin layer that assembles the commands of the components.

A command is a typer function or app that lives beside what it drives; here it only gets its name.
Nothing heavy may be imported at module level anywhere below: `okibi --help` must answer at once.
"""

from typing import NoReturn

import typer

from okibi import __version__
from okibi.bench.commands import app as bench_app
from okibi.core.chain_hash import native_chain_digests
from okibi.core.errors import OkibiError
from okibi.launch.checks import run_checks
from okibi.launch.models import app as models_app
from okibi.launch.serve import serve

app = typer.Typer(
    help="Serve language models to agents, with their KV cache kept warm between turns.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

app.command("serve")(serve)
app.command("test")(run_checks)
app.add_typer(bench_app, name="bench")
app.add_typer(models_app, name="models")


@app.command()
def version() -> None:
    """Print the version, and whether the C++ part was built."""
    hashing = "C++" if native_chain_digests else "pure Python"
    typer.echo(f"okibi {__version__} ({hashing} hashing)")


def main() -> NoReturn:
    """Run the command line; an error meant for a person is one line and exit code 2."""
    try:
        app()
    except OkibiError as error:
        typer.echo(f"okibi: {error}", err=True)
        raise SystemExit(2) from None
    raise SystemExit(0)
