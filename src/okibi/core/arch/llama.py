"""Llama 1 to 3.x and the models that share its config: SmolLM, TinyLlama and others."""

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import DenseDefaults, parse_dense


def parse_llama(config: ConfigReader) -> DenseArch:
    """`attention_bias` puts a bias on all four projections."""
    config.refuse_unless("pretraining_tp", 0, 1)
    fields = parse_dense(config, DenseDefaults(max_position=2048))
    bias = config.flag("attention_bias", default=False)
    return DenseArch(
        family="llama",
        **fields,
        layer_windows=(None,) * fields["num_layers"],
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
