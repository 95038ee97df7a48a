"""Mistral 7B, Nemo and Small (text): Llama without biases, the older ones with a window."""

from dataclasses import replace

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import parse_dense
from okibi.core.arch.family import Family

DEFAULT_WINDOW = 4096


def parse_mistral(config: ConfigReader) -> DenseArch:
    """`sliding_window` holds for every layer; null means none, absent means Mistral 7B's."""
    config.refuse_unless("layer_types")
    arch = parse_dense("mistral", config, default_max_position=131072)
    absent = "sliding_window" not in config
    window = DEFAULT_WINDOW if absent else config.optional_count("sliding_window")
    return replace(arch, layer_windows=(window,) * arch.num_layers)


MISTRAL = Family(name="mistral", architectures=("MistralForCausalLM",), parse=parse_mistral)
