"""Numbers that depend on seed and position alone, and look random in both."""

import numpy as np

from okibi.execution.kernels.sampling import uniforms


def grid(seeds: int, positions: int) -> np.ndarray:
    seed, position = np.meshgrid(np.arange(seeds), np.arange(positions), indexing="ij")
    flat = uniforms(seed.ravel().astype(np.uint64), position.ravel().astype(np.uint64))
    return flat.reshape(seeds, positions)


def test_known_values_never_change():
    """A change here changes what every seeded request says."""
    values = uniforms(np.array([0, 0, 1, 2**64 - 1], np.uint64), np.array([0, 1, 0, 7], np.uint64))
    assert values.tolist() == [
        0.6524484863740321,
        0.7012121095215251,
        0.36818951565166946,
        0.7238582745899125,
    ]


def test_values_fill_the_unit_interval_evenly():
    values = grid(200, 200)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    counts = np.histogram(values, bins=50, range=(0.0, 1.0))[0]
    assert abs(counts - values.size / 50).max() < 5 * (values.size / 50) ** 0.5


def test_neighbours_are_not_correlated():
    values = grid(200, 200) - 0.5
    for left, right in ((values[1:], values[:-1]), (values[:, 1:], values[:, :-1])):
        correlation = (left * right).mean() * 12
        assert abs(correlation) < 5 / left.size**0.5


def test_no_two_pairs_share_a_number():
    values = grid(200, 200)
    assert len(np.unique(values)) == values.size
