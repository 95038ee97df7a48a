"""`okibi models`: fetch, list and describe models.

Prints; the work is done in `model_catalog`, `model_pull` and `execution`. What prints a table for
a person prints the same facts as JSON on request.
"""

import json
from typing import Annotated, Any

import typer

from okibi.launch.model_catalog import CATALOG, DEFAULT_MODEL, find_model
from okibi.launch.model_pull import pull

app = typer.Typer(help="Fetch, list and describe models.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MODEL_HELP = "A name from `okibi models list`, a GGUF file or a Hugging Face folder."


@app.command("pull")
def pull_command(
    name: Annotated[str, typer.Argument(help="A name from `okibi models list`.")] = DEFAULT_MODEL,
) -> None:
    """Fetch a model into the cache folder and verify it."""
    typer.echo(pull(name))


@app.command("list")
def list_command(*, as_json: AsJson = False) -> None:
    """List the models that have a name, and whether they are on this machine."""
    entries = [
        {
            "name": model.name,
            "description": model.description,
            "num_bytes": model.num_bytes,
            "path": str(model.path) if model.is_cached() else None,
        }
        for model in CATALOG.values()
    ]
    if as_json:
        typer.echo(json.dumps(entries, indent=2))
        return
    for entry in entries:
        where = entry["path"] or f"not fetched, {entry['num_bytes'] / 1e6:.0f} MB"
        typer.echo(f"{entry['name']:<12} {entry['description']}\n{'':<12} {where}")


@app.command("show")
def show_command(
    model: Annotated[str, typer.Argument(help=MODEL_HELP)] = DEFAULT_MODEL,
    *,
    as_json: AsJson = False,
) -> None:
    """Describe a model: architecture, size, KV bytes per token, context."""
    facts = describe(model)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        typer.echo(f"{key:<24} {_plain(value)}")


def describe(name_or_path: str) -> dict[str, Any]:
    """The facts of a model on this machine, from headers alone.

    Raises:
        ModelError: it is not there, broken, or of an unknown architecture.
    """
    # Formats need torch, which takes seconds to import: only when a model is really opened.
    from okibi.launch.model_facts import model_facts

    return model_facts(find_model(name_or_path))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count:,}" for key, count in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
