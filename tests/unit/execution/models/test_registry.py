"""The two registries of families know the same ones."""

from okibi.core.arch import FAMILIES
from okibi.execution.models.registry import MODEL_FAMILIES


def test_every_family_that_is_parsed_can_be_run():
    assert FAMILIES.keys() == MODEL_FAMILIES.keys()
