"""What a config says about rotary position embedding (Su et al. 2021, RoFormer).

Owns the values; the angles are computed in `execution.layers.rotary`. Both spellings are read:
`rope_theta` with `rope_scaling`, and the single `rope_parameters` of newer configs. A scaling
that is not listed here is refused: ignoring one would serve a subtly different model.
"""

from dataclasses import dataclass

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.errors import ModelError

DEFAULT_THETA = 10_000.0
_KNOWN_KEYS = frozenset(
    {
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "divisors",
        "factor",
        "high_freq_factor",
        "low_freq_factor",
        "mscale",
        "mscale_all_dim",
        "original_max_position_embeddings",
        "partial_rotary_factor",
        "rope_theta",
        "rope_type",
        "truncate",
        "type",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """All frequencies divided by `factor` (Chen et al. 2023, position interpolation)."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Long wavelengths divided by `factor`, short ones kept, a ramp between (Llama 3.1)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnScaling:
    """Interpolation by parts (Peng et al. 2023, YaRN).

    Attributes:
        attention_factor: Multiplies cosines and sines; None for the paper's `0.1 ln(factor) + 1`.
        truncate: Whether the ramp's ends are rounded to whole dimensions.
    """

    factor: float
    original_max_position: int
    beta_fast: float
    beta_slow: float
    attention_factor: float | None
    truncate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyDivisors:
    """One divisor a frequency: what GGUF files keep of a scaling (`rope_freqs.weight`)."""

    divisors: tuple[float, ...]


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling | FrequencyDivisors


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSpec:
    """Frequency `i` of `head_dim / 2` is `theta ** (-2 i / head_dim)`, then scaled."""

    theta: float
    scaling: RopeScaling | None = None


def parse_rope(config: ConfigReader, *, head_dim: int, max_position: int) -> RopeSpec:
    """Read the rope of a config.

    Raises:
        ModelError: the scaling is unknown, or its numbers are missing or wrong.
    """
    table = config.table("rope_parameters") or config.table("rope_scaling")
    theta = config.positive("rope_theta", DEFAULT_THETA)
    config.refuse_unless("partial_rotary_factor", 1.0)
    if table is None:
        return RopeSpec(theta=theta)
    table.refuse_unknown_keys("rope", _KNOWN_KEYS)
    table.refuse_unless("partial_rotary_factor", 1.0)
    theta = table.positive("rope_theta", theta)
    kind = table.text("rope_type") or table.text("type") or "default"
    scaling = _parse_scaling(kind, table, max_position)
    if isinstance(scaling, FrequencyDivisors) and len(scaling.divisors) != head_dim // 2:
        raise ModelError(
            f"the model has {len(scaling.divisors)} rope divisors for {head_dim // 2} frequencies"
        )
    return RopeSpec(theta=theta, scaling=scaling)


def extended_context(rope: RopeSpec, max_position: int) -> int:
    """The longest context in tokens, where a config states the one before scaling.

    Configs with YaRN may state either; those with linear scaling state the one before.
    """
    match rope.scaling:
        case LinearScaling(factor=factor):
            return int(factor * max_position)
        case YarnScaling(factor=factor, original_max_position=original):
            return max(max_position, int(factor * original))
        case _:
            return max_position


def _parse_scaling(kind: str, table: ConfigReader, max_position: int) -> RopeScaling | None:
    original = table.optional_count("original_max_position_embeddings") or max_position
    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=table.positive("factor"))
        case "llama3":
            return Llama3Scaling(
                factor=table.positive("factor"),
                low_freq_factor=table.positive("low_freq_factor"),
                high_freq_factor=table.positive("high_freq_factor"),
                original_max_position=original,
            )
        case "yarn":
            return _parse_yarn(table, original)
        case "frequency_divisors":
            return FrequencyDivisors(divisors=table.numbers("divisors"))
        case _:
            raise ModelError(
                f"okibi does not know the rope type {kind!r}; known: default, linear, llama3, yarn"
            )


def _parse_yarn(table: ConfigReader, original_max_position: int) -> YarnScaling:
    for key in ("mscale", "mscale_all_dim"):
        table.refuse_unless(key)
    return YarnScaling(
        factor=table.positive("factor"),
        original_max_position=original_max_position,
        beta_fast=table.positive("beta_fast", 32.0),
        beta_slow=table.positive("beta_slow", 1.0),
        attention_factor=table.optional_positive("attention_factor"),
        truncate=table.flag("truncate", default=True),
    )
