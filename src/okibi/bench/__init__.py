"""Agent-trace load generation: workloads, closed-loop replay, metrics and reports.

Drives any OpenAI-compatible server from the outside. Must never import `okibi.server` or
`okibi.execution`: a benchmark that reaches into what it measures is not a benchmark.
"""
