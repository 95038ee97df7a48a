"""Templates render as Hugging Face renders them, and cannot reach out of their sandbox."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from okibi.core.clock import VirtualClock
from okibi.core.errors import ModelError
from okibi.server.prompt.chat_template import ChatTemplate, TemplateRefusal
from tests.support.tiny_text import CHAT_TEMPLATE

CALL = {"function": {"name": "f", "arguments": {"b": 1, "a": "é"}}}
MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hé\n"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": "é"}}}],
    },
]
FEATURES = """\
{%- set ns = namespace(found=false) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- continue %}
    {%- endif %}
    {%- if message.tool_calls %}
        {{- message.tool_calls | tojson(indent=2) }}
    {%- endif %}
    {% generation %}{{ message.content | trim }}{% endgeneration %}

    {%- if loop.last %}{% break %}{% endif %}
{%- endfor %}
{% if tools %}{{ tools | tojson }}{% endif %}
{{ bos_token }}
"""
TOOLS: list[Any] = [{"type": "function", "function": {"name": "f", "description": "<b>&'"}}]


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, FEATURES])
def test_rendering_equals_transformers(source: str):
    template = ChatTemplate(source, {"bos_token": "<s>"}, VirtualClock())
    options = {"add_generation_prompt": True, "tools": TOOLS}
    (expected,), _ = render_jinja_template(
        conversations=[MESSAGES],
        chat_template=source,
        tools=TOOLS,
        add_generation_prompt=True,
        bos_token="<s>",
    )
    assert template.render(MESSAGES, options) == expected


def test_the_date_comes_from_the_clock():
    template = ChatTemplate("{{ strftime_now('%Y') }}", {}, VirtualClock(86_400.0 * 400))
    assert template.render([], {}) == "1971"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('no system, please') }}", "no system, please"),
        ("{{ messages[7].content }}", "failed"),
        ("{{ 1 + 'a' }}", "failed"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ missing.attribute }}", "undefined"),
    ],
)
def test_what_goes_wrong_is_a_refusal_with_the_reason(source: str, words: str):
    with pytest.raises(TemplateRefusal, match=words):
        ChatTemplate(source, {}, VirtualClock()).render([], {})


def test_a_template_that_is_no_jinja_is_the_models_fault():
    with pytest.raises(ModelError, match="chat template"):
        ChatTemplate("{% for %}", {}, VirtualClock())
