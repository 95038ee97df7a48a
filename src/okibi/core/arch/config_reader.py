"""Typed look-ups in a checkpoint's config.json.

Owns the checks of presence, type and range, so that a family file states only what a key means.
Never guesses: a value that is there but wrong is refused, naming the key.
"""

from collections.abc import Mapping
from typing import cast

from okibi.core.errors import ModelError

Config = Mapping[str, object]


class ConfigReader:
    """Reads keys of one config and raises `ModelError` on the first that cannot be used."""

    __slots__ = ("_config",)

    def __init__(self, config: Config) -> None:
        self._config = config

    def __contains__(self, key: str) -> bool:
        return key in self._config

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1. Null counts as absent."""
        value = self._config.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"the model's config has no {key!r}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ModelError(f"the model's config says {key} = {value!r}, not a count")
        return value

    def optional_count(self, key: str) -> int | None:
        return None if self._config.get(key) is None else self.count(key)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0. Null counts as absent."""
        value = self._config.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"the model's config has no {key!r}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"the model's config says {key} = {value!r}, not a number")
        if not 0.0 < value < float("inf"):
            raise ModelError(f"the model's config says {key} = {value!r}, not above 0")
        return float(value)

    def optional_positive(self, key: str) -> float | None:
        return None if self._config.get(key) is None else self.positive(key)

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ModelError(f"the model's config says {key} = {value!r}, not true or false")
        return value

    def text(self, key: str) -> str | None:
        value = self._config.get(key)
        if value is not None and not isinstance(value, str):
            raise ModelError(f"the model's config says {key} = {value!r}, not a string")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or None if absent."""
        if self._config.get(key) is None:
            return None
        items = self._items(key)
        if not all(isinstance(item, str) for item in items):
            raise ModelError(f"the model's config says {key} = {list(items)}, not strings")
        return tuple(str(item) for item in items)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers, which must be there."""
        items = self._items(key)
        numbers = tuple(float(item) for item in items if isinstance(item, int | float))
        if len(numbers) != len(items):
            raise ModelError(f"the model's config says {key} = {list(items)}, not numbers")
        return numbers

    def table(self, key: str) -> "ConfigReader | None":
        """A nested object, or None if absent."""
        value = self._config.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ModelError(f"the model's config says {key} = {value!r}, not an object")
        return ConfigReader(value)  # pyright: ignore[reportUnknownArgumentType]

    def refuse_unless(self, key: str, *accepted: object) -> None:
        """Refuse a key whose value okibi does not implement.

        Raises:
            ModelError: the value is neither absent nor one of `accepted`.
        """
        value = self._config.get(key)
        if value is not None and value not in accepted:
            raise ModelError(f"okibi does not support models with {key} = {value!r}")

    def refuse_unknown_keys(self, what: str, known: frozenset[str]) -> None:
        """Refuse a table with a key that might change the model's meaning.

        Raises:
            ModelError: a key is not in `known`.
        """
        for key in self._config:
            if key not in known:
                raise ModelError(f"okibi does not know the {what} setting {key!r}")

    def _items(self, key: str) -> tuple[object, ...]:
        value = self._config.get(key)
        if not isinstance(value, list | tuple):
            raise ModelError(f"the model's config says {key} = {value!r}, not a list")
        return tuple(cast("list[object]", value))
