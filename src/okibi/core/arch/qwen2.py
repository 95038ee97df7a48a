"""Qwen2 and Qwen2.5: a bias on queries, keys and values, and windows on upper layers at most."""

from dataclasses import replace

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import parse_dense, parse_layer_windows
from okibi.core.arch.family import Family


def parse_qwen2(config: ConfigReader) -> DenseArch:
    arch = parse_dense("qwen2", config, default_max_position=32768)
    windows = parse_layer_windows(config, arch.num_layers)
    return replace(arch, layer_windows=windows, qkv_bias=True)


QWEN2 = Family(name="qwen2", architectures=("Qwen2ForCausalLM",), parse=parse_qwen2)
