"""What configs mean, in both spellings, and what is refused rather than ignored."""

from typing import Any

import pytest

from okibi.core.arch import parse_config
from okibi.core.arch.dense import DenseArch
from okibi.core.arch.rope import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    RopeSpec,
    YarnScaling,
)
from okibi.core.errors import ModelError

SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def parse(model_type: str = "llama", **changes: Any) -> DenseArch:
    arch = parse_config({"model_type": model_type} | SHAPE | changes)
    assert isinstance(arch, DenseArch)
    return arch


def test_architectures_decides_before_model_type():
    arch = parse(architectures=["Qwen2ForCausalLM"], model_type="something_else")
    assert arch.family == "qwen2"


@pytest.mark.parametrize(
    "name",
    [{"architectures": ["GPT2LMHeadModel"]}, {"model_type": "gpt2"}, {"model_type": None}],
)
def test_an_unknown_architecture_lists_the_known_ones(name: dict[str, Any]):
    with pytest.raises(ModelError, match=r"LlamaForCausalLM.*Qwen3ForCausalLM"):
        parse_config(SHAPE | name)


def test_families_differ_where_they_should():
    llama, qwen2, qwen3 = parse("llama"), parse("qwen2"), parse("qwen3")
    assert (llama.qkv_bias, qwen2.qkv_bias, qwen3.qkv_bias) == (False, True, False)
    assert (llama.qk_norm, qwen2.qk_norm, qwen3.qk_norm) == (False, False, True)
    assert (llama.head_dim, qwen3.head_dim) == (8, 128)
    assert not qwen2.o_bias


def test_an_attention_bias_is_on_all_four_projections():
    arch = parse("llama", attention_bias=True, mlp_bias=True)
    assert (arch.qkv_bias, arch.o_bias, arch.mlp_bias) == (True, True, True)


def test_head_dim_and_kv_heads_have_defaults():
    arch = parse(head_dim=None, num_key_value_heads=None)
    assert (arch.head_dim, arch.num_kv_heads) == (8, 8)


class TestWindows:
    def test_mistral_puts_one_on_every_layer(self):
        assert parse("mistral", sliding_window=16).layer_windows == (16,) * 4

    def test_mistral_null_means_none_and_absent_means_the_original(self):
        assert parse("mistral", sliding_window=None).layer_windows == (None,) * 4
        assert parse("mistral").layer_windows == (4096,) * 4

    def test_qwen_needs_the_switch(self):
        assert parse("qwen2", sliding_window=16).layer_windows == (None,) * 4

    def test_qwen_by_layer_number(self):
        arch = parse("qwen3", use_sliding_window=True, sliding_window=16, max_window_layers=3)
        assert arch.layer_windows == (None, None, None, 16)

    def test_qwen_by_layer_types(self):
        kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
        arch = parse("qwen3", use_sliding_window=True, sliding_window=16, layer_types=kinds)
        assert arch.layer_windows == (None, 16, None, 16)

    @pytest.mark.parametrize("kinds", [["full_attention"], ["linear_attention"] * 4])
    def test_layer_types_that_do_not_fit_are_refused(self, kinds: list[str]):
        with pytest.raises(ModelError, match="layer"):
            parse("qwen3", use_sliding_window=True, sliding_window=16, layer_types=kinds)


class TestRope:
    def test_old_and_new_spelling_mean_the_same(self):
        old = parse(rope_theta=500.0, rope_scaling={"rope_type": "llama3"} | LLAMA3)
        new = parse(rope_parameters={"rope_type": "llama3", "rope_theta": 500.0} | LLAMA3)
        assert old == new
        assert new.rope == RopeSpec(
            theta=500.0,
            scaling=Llama3Scaling(
                factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=64
            ),
        )

    def test_the_oldest_spelling_says_type(self):
        arch = parse(rope_scaling={"type": "linear", "factor": 2.0})
        assert arch.rope == RopeSpec(theta=10_000.0, scaling=LinearScaling(factor=2.0))

    def test_null_means_none(self):
        assert parse(rope_scaling=None, rope_theta=7.0).rope == RopeSpec(theta=7.0)

    def test_yarn_takes_its_original_length_from_the_config(self):
        scaling = parse(rope_scaling={"rope_type": "yarn", "factor": 4.0}).rope.scaling
        assert isinstance(scaling, YarnScaling)
        assert (scaling.original_max_position, scaling.beta_fast) == (512, 32.0)

    @pytest.mark.parametrize(
        ("scaling", "expected"),
        [
            (None, 512),
            ({"rope_type": "yarn", "factor": 4.0}, 2048),
            ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}, 512),
            ({"rope_type": "linear", "factor": 2.0}, 1024),
            ({"rope_type": "llama3"} | LLAMA3, 512),
        ],
    )
    def test_scaling_extends_the_context_that_a_config_states_before_it(
        self, scaling: object, expected: int
    ):
        assert parse(rope_scaling=scaling).max_position == expected

    def test_divisors_are_one_a_frequency(self):
        table = {"rope_type": "frequency_divisors", "divisors": [1.0, 2.0, 4.0, 8]}
        scaling = parse(rope_parameters=table).rope.scaling
        assert scaling == FrequencyDivisors(divisors=(1.0, 2.0, 4.0, 8.0))
        with pytest.raises(ModelError, match="4 frequencies"):
            parse(rope_parameters=table | {"divisors": [1.0]})

    @pytest.mark.parametrize(
        "table",
        [
            {"rope_type": "dynamic", "factor": 2.0},
            {"rope_type": "longrope", "factor": 2.0},
            {"rope_type": "linear"},
            {"rope_type": "linear", "factor": 0.0},
            {"rope_type": "linear", "factor": "2"},
            {"rope_type": "llama3", "factor": 8.0},
            {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7},
            {"rope_type": "default", "partial_rotary_factor": 0.5},
            {"full_attention": {"rope_type": "default"}},
            {"rope_type": "default", "new_setting": 1},
        ],
    )
    def test_what_is_unknown_or_incomplete_is_refused(self, table: dict[str, Any]):
        with pytest.raises(ModelError):
            parse(rope_parameters=table)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu"},
        {"quantization_config": {"quant_method": "awq"}},
        {"num_local_experts": 8},
        {"pretraining_tp": 2},
        {"partial_rotary_factor": 0.5},
    ],
)
def test_unsupported_features_are_refused(change: dict[str, Any]):
    with pytest.raises(ModelError, match="does not support"):
        parse(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": None},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": 10**9},
        {"hidden_size": "64"},
        {"vocab_size": True},
        {"num_key_value_heads": 3},
        {"head_dim": 7},
        {"rms_norm_eps": float("nan")},
        {"rms_norm_eps": -1.0},
        {"tie_word_embeddings": "yes"},
        {"architectures": "LlamaForCausalLM"},
        {"architectures": [1]},
        {"rope_scaling": "llama3"},
    ],
)
def test_broken_values_are_refused(change: dict[str, Any]):
    with pytest.raises(ModelError):
        parse(**change)
