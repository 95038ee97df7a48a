"""Serving: HTTP in front, a prompt maker, and the link to the engine process.

`http` speaks the public APIs, `prompt` turns messages into token ids and ids into text,
`engine_client` and `live_driver` are the two ends of the link. Nothing here decides what runs when
(`okibi.control`) or computes anything of a model (`okibi.execution`).
"""
