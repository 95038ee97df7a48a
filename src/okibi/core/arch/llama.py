"""Llama 1 to 3.x and the models that share its config: SmolLM, TinyLlama and others."""

from dataclasses import replace

from okibi.core.arch.config_reader import ConfigReader
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.dense_config import parse_dense
from okibi.core.arch.family import Family


def parse_llama(config: ConfigReader) -> DenseArch:
    """`attention_bias` puts a bias on all four projections."""
    config.refuse_unless("pretraining_tp", 0, 1)
    bias = config.flag("attention_bias", default=False)
    return replace(
        parse_dense("llama", config, default_max_position=2048),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )


LLAMA = Family(name="llama", architectures=("LlamaForCausalLM",), parse=parse_llama)
