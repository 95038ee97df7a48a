"""What `okibi serve` says once it is up: what is served, and commands to paste into a shell."""

from okibi.server.engine_protocol import Ready


def welcome(name: str, limits: Ready, url: str, seconds: float, *, has_key: bool) -> str:
    """The text for the terminal. `seconds` is how long the start took; a key is never shown."""
    header = " \\\n    -H 'authorization: Bearer YOUR_KEY'" if has_key else ""
    option = " --api-key YOUR_KEY" if has_key else ""
    return f"""\
serving {name} at {url} after {seconds:.1f} s: up to {limits.max_model_len:,} tokens a request, \
prefixes reused in units of {limits.prefix_match_unit}

Try it:
  curl {url}/v1/chat/completions -H 'content-type: application/json'{header} \\
    -d '{{"messages": [{{"role": "user", "content": "What are embers?"}}], "max_tokens": 64}}'

Replay agent sessions against it:
  ./okibi bench generate traces && ./okibi bench replay traces --url {url}{option}
"""
