"""okibi: LLM serving for agents, with their KV cache kept warm between turns.

The package's front door is the command line (`okibi.cli`); `docs/architecture.md` says what lives
where and who may import whom.
"""

__version__ = "0.1.0"
