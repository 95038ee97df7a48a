"""Command-line options from a frozen dataclass: one field, one option.

A command with twenty options is a value with twenty fields, not a function with twenty arguments.
Fields are annotated as typer's parameters are: `Annotated[int, Option(help=...)]`. Must never hold
the options of any one command.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

_T = TypeVar("_T")


def option_command(options: type[_T], run: Callable[[_T], None]) -> Callable[..., None]:
    """A function that typer reads as having one parameter per field of `options`.

    Calling it builds `options` and hands it to `run`, whose docstring is the command's help.
    """

    def invoke(**values: Any) -> None:
        run(options(**values))

    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(options)  # pyright: ignore[reportArgumentType]
    ]
    invoke.__doc__ = run.__doc__
    invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoke.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return invoke


def flag_name(field_name: str) -> str:
    """The flag that typer makes of a field's name."""
    return "--" + field_name.replace("_", "-")


def _default(field: dataclasses.Field[Any]) -> Any:
    missing = field.default is dataclasses.MISSING
    return inspect.Parameter.empty if missing else field.default
