"""Qwen2 and Qwen2.5: a bias on queries, keys and values, and windows on upper layers at most."""

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import DenseDefaults, parse_dense, parse_layer_windows


def parse_qwen2(config: ConfigReader) -> DenseArch:
    fields = parse_dense(config, DenseDefaults(max_position=32768))
    return DenseArch(
        family="qwen2",
        **fields,
        layer_windows=parse_layer_windows(config, fields["num_layers"]),
        qkv_bias=True,
    )
