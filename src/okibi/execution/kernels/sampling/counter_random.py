"""Random numbers that are a function of (seed, position) and of nothing else.

No state, no device: the same request says the same thing in any batch, chunking or process, and
after preemption. The mixing function is SplitMix64's (Steele, Lea and Flood 2014).
"""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BITS = 52


def uniforms(seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """One float64 in [0, 1) for each (seed, position), both uint64.

    52 bits, so that a product with a total stays below the total.
    """
    with np.errstate(over="ignore"):
        key = _mix(seeds + _GOLDEN)
        word = _mix(key + (positions + np.uint64(1)) * _GOLDEN)
    return (word >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


def _mix(word: np.ndarray) -> np.ndarray:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
