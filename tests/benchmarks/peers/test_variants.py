import pytest

from benchmarks.peers.variants import LLAMACPP_BF16, LLAMACPP_Q4_1, VARIANTS, select_variants
from okibi.core.errors import ConfigError


def names(words: str | None) -> list[str]:
    return [variant.name for variant in select_variants(words)]


def test_an_engine_names_all_its_variants_and_the_order_is_the_standing_one():
    assert names("llamacpp") == [LLAMACPP_Q4_1.name, LLAMACPP_BF16.name]
    assert names("llamacpp-q4_1, okibi,vllm-bf16,vllm") == [
        "okibi-bf16",
        "vllm-bf16",
        "okibi-q4_1",
        "llamacpp-q4_1",
    ]
    assert select_variants(None) == VARIANTS


@pytest.mark.parametrize("words", ["", "sglang", "okibi,vllm-q4_1"])
def test_a_word_that_names_nothing_is_refused(words):
    with pytest.raises(ConfigError, match="--only"):
        select_variants(words)
