"""Qwen3, dense: queries and keys are normalised per head, and head_dim stands on its own."""

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import DenseDefaults, parse_dense, parse_layer_windows


def parse_qwen3(config: ConfigReader) -> DenseArch:
    fields = parse_dense(config, DenseDefaults(max_position=32768, head_dim=128))
    bias = config.flag("attention_bias", default=False)
    return DenseArch(
        family="qwen3",
        **fields,
        layer_windows=parse_layer_windows(config, fields["num_layers"]),
        qkv_bias=bias,
        o_bias=bias,
        qk_norm=True,
    )
