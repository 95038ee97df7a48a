"""Closed-loop replay of agent sessions.

`scheduler` decides what may start when, without I/O, so that a server, a test and a simulation can
drive the same code; `driver` is its asyncio shell; `client` talks to one server.
"""
