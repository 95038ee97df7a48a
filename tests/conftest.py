"""Profiles of the property tests: quick and repeatable by default, long and random on request.

`pytest --hypothesis-profile long tests/property` is the lane that searches.
"""

from datetime import timedelta

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)

settings.register_profile(
    "quick",
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "long",
    max_examples=3000,
    stateful_step_count=80,
    deadline=timedelta(seconds=60),
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.load_profile("quick")
