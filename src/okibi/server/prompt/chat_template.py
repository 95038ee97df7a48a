"""Renders a conversation with the model's own chat template.

Templates come with models, so they run in a sandbox that can reach no attribute of Python and
change nothing. The environment is the one Hugging Face documents for templates: block trimming,
loop controls, `raise_exception`, `strftime_now`, `tojson`, and a `generation` tag that only marks.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from okibi.core.clock import Clock
from okibi.core.errors import ModelError

Message = Mapping[str, Any]


class TemplateRefusal(Exception):
    """The template cannot render these messages; the text says why, for whoever sent them."""


class ChatTemplate:
    """One compiled template. Safe to use from several threads."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], clock: Clock) -> None:
        """`special_tokens` are the names a template may use, such as `bos_token`.

        Raises:
            ModelError: the template is no valid Jinja.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda fmt: _now(clock).strftime(fmt)
        environment.globals.update(special_tokens)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ModelError(f"the model's chat template cannot be read: {error}") from error

    def render(self, messages: Sequence[Message], options: Mapping[str, Any]) -> str:
        """The prompt's text.

        Args:
            messages: Role, content and what else the template may read.
            options: Further variables, such as `add_generation_prompt` or `tools`.

        Raises:
            TemplateRefusal: the template raised, or failed on what it was given.
        """
        try:
            return self._template.render(messages=messages, **options)
        except TemplateRefusal:
            raise
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, RecursionError) as error:
            raise TemplateRefusal(f"the model's chat template failed: {error}") from error


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`: renders its body."""

    tags = {"generation"}  # noqa: RUF012 - the name and kind that jinja2 reads

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise TemplateRefusal(message)


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.unix_time_s())


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
