"""The dense decoder-only transformer, as numbers.

Owns what follows from the numbers alone: the shapes of all weights, their count, and the KV specs.
The torch model in `execution.models.dense` is built from it, and a test holds the two equal.
Knows nothing of tensors or of checkpoint formats.
"""

from dataclasses import dataclass
from math import prod

from okibi.core.arch.rope import RopeSpec
from okibi.core.kv_spec import FullAttentionSpec, KVDType


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseArch:
    """A pre-norm decoder: RMSNorm, grouped-query attention with rope, gated SiLU MLP.

    Attributes:
        family: Key of the family in the registry.
        layer_windows: One a layer: the number of most recent positions (its own included) that a
            position attends to, or None for all.
        max_position: Longest context the model was made for, in tokens.
        qk_norm: Whether queries and keys are normalised per head before rope.
    """

    family: str
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_norm_eps: float
    rope: RopeSpec
    layer_windows: tuple[int | None, ...]
    max_position: int
    tie_word_embeddings: bool
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    @property
    def num_layers(self) -> int:
        return len(self.layer_windows)

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "num_layers": self.num_layers,
            "hidden_size": self.hidden_size,
            "num_heads": self.num_heads,
            "num_kv_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
        }

    def kv_specs(self, dtype: KVDType) -> tuple[FullAttentionSpec, ...]:
        """One a layer. A window limits attention only; all its tokens stay cached."""
        return tuple(
            FullAttentionSpec(
                layer=layer, num_kv_heads=self.num_kv_heads, head_dim=self.head_dim, dtype=dtype
            )
            for layer in range(self.num_layers)
        )

    def num_parameters(self) -> int:
        return sum(prod(shape) for shape in weight_shapes(self).values())


def weight_shapes(arch: DenseArch) -> dict[str, tuple[int, ...]]:
    """Shape of every weight, under its Hugging Face name. Matrices are [output, input]."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (arch.vocab_size, arch.hidden_size)
    }
    for layer in range(arch.num_layers):
        for name, shape in layer_weight_shapes(arch).items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    shapes["model.norm.weight"] = (arch.hidden_size,)
    if not arch.tie_word_embeddings:
        shapes["lm_head.weight"] = (arch.vocab_size, arch.hidden_size)
    return shapes


def layer_weight_shapes(arch: DenseArch) -> dict[str, tuple[int, ...]]:
    """Shape of every weight of one layer; all layers are alike."""
    hidden, inner = arch.hidden_size, arch.intermediate_size
    matrices = (
        ("self_attn.q_proj", (arch.q_size, hidden), arch.qkv_bias),
        ("self_attn.k_proj", (arch.kv_size, hidden), arch.qkv_bias),
        ("self_attn.v_proj", (arch.kv_size, hidden), arch.qkv_bias),
        ("self_attn.o_proj", (hidden, arch.q_size), arch.o_bias),
        ("mlp.gate_proj", (inner, hidden), arch.mlp_bias),
        ("mlp.up_proj", (inner, hidden), arch.mlp_bias),
        ("mlp.down_proj", (hidden, inner), arch.mlp_bias),
    )
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape, has_bias in matrices:
        shapes[f"{name}.weight"] = shape
        if has_bias:
            shapes[f"{name}.bias"] = shape[:1]
    shapes["input_layernorm.weight"] = (hidden,)
    shapes["post_attention_layernorm.weight"] = (hidden,)
    if arch.qk_norm:
        shapes["self_attn.q_norm.weight"] = (arch.head_dim,)
        shapes["self_attn.k_norm.weight"] = (arch.head_dim,)
    return shapes
