"""Agent sessions as data: the trace format, its readers, its generator and its structure.

Everything here is pure: no network, no clock, randomness only from a given seed. A session is a
`Trace`; `build_tree` turns it into the graph of calls that a replay walks.
"""
