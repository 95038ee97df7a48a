"""Qwen3, dense: queries and keys are normalised per head, and head_dim stands on its own."""

from dataclasses import replace

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import parse_dense, parse_layer_windows
from okibi.core.arch.family import Family


def parse_qwen3(config: ConfigReader) -> DenseArch:
    arch = parse_dense("qwen3", config, default_max_position=32768, default_head_dim=128)
    bias = config.flag("attention_bias", default=False)
    return replace(
        arch,
        layer_windows=parse_layer_windows(config, arch.num_layers),
        qkv_bias=bias,
        o_bias=bias,
        qk_norm=True,
    )


QWEN3 = Family(name="qwen3", architectures=("Qwen3ForCausalLM",), parse=parse_qwen3)
