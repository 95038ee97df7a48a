"""What bodies may hold, for every schema at once."""

import msgspec
import pytest

from okibi.server.http.schemas import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    TokenizeBody,
    decode_body,
)

_REQUIRED = {
    ChatBody: {"messages": [{"role": "user", "content": "the cat"}]},
    CompletionBody: {"prompt": "the cat"},
    TokenizeBody: {"prompt": "the cat"},
    DetokenizeBody: {"tokens": [1]},
}


@pytest.mark.parametrize("schema", _REQUIRED)
def test_null_is_as_good_as_not_given(schema: type[msgspec.Struct]):
    """Clients that write every option, such as pydantic dumps, send null for those not set."""
    required = _REQUIRED[schema]
    nulls = {name: None for name in schema.__struct_fields__ if name not in required}
    sent = msgspec.json.encode({**nulls, **required})
    assert decode_body(sent, schema) == decode_body(msgspec.json.encode(required), schema)
