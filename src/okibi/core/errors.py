"""Errors okibi raises on purpose.

`OkibiError` is what a caller may catch to print one line and stop. Anything else that escapes is
a defect in okibi and keeps its traceback.
"""


class OkibiError(Exception):
    """Base of every error with a message meant for the person who runs okibi."""


class ConfigError(OkibiError):
    """A configuration that cannot work; the message names the flag to change or remove."""


class ModelError(OkibiError):
    """A model folder or file that cannot be read, or whose architecture okibi does not know."""


class ExecutorError(OkibiError):
    """An executor that can no longer run plans; every request in flight must be ended."""


class PlanViolation(OkibiError):
    """A plan that would read KV never written for its tokens, or overwrite KV still in use."""
