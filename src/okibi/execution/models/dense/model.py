"""The dense decoder-only transformer.

    x = embed(tokens)
    x = x + attention(norm(x))      for every layer
    x = x + mlp(norm(x))
    logits = lm_head(norm(x))

Owns the maths alone: no loading, no cache policy, no parallelism. Tokens of all sequences come
flattened; what ties them to their sequences is behind `attend`. Shapes: T tokens, H hidden,
N heads, K KV heads, D head_dim, I intermediate, V vocabulary.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from okibi.core.arch.dense import DenseArch
from okibi.execution.kernels.gated_activation import silu_and_mul
from okibi.execution.layers.attention import Attend, AttentionSpec
from okibi.execution.layers.linear import Embedding, Linear
from okibi.execution.layers.norm import RMSNorm
from okibi.execution.layers.rotary import Rotary, RotaryEmbedding
from okibi.execution.models.family import Model


class Attention(nn.Module):
    """Grouped-query attention (Ainslie et al. 2023); one matrix projects to q, k and v."""

    def __init__(self, arch: DenseArch, layer: int) -> None:
        super().__init__()
        self.sizes = (arch.q_size, arch.kv_size, arch.kv_size)
        self.head_dim = arch.head_dim
        self.spec = AttentionSpec(
            layer=layer, scale=arch.head_dim**-0.5, window=arch.layer_windows[layer]
        )
        self.qkv_proj = Linear(arch.hidden_size, sum(self.sizes), bias=arch.qkv_bias)
        self.o_proj = Linear(arch.q_size, arch.hidden_size, bias=arch.o_bias)
        self.q_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps) if arch.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps) if arch.qk_norm else nn.Identity()

    def forward(self, x_TH: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        q, k, v = self.qkv_proj(x_TH).split(self.sizes, dim=-1)
        q_TND = self.q_norm(q.unflatten(-1, (-1, self.head_dim)))
        k_TKD = self.k_norm(k.unflatten(-1, (-1, self.head_dim)))
        v_TKD = v.unflatten(-1, (-1, self.head_dim))
        o_TND = attend(self.spec, rotary(q_TND), rotary(k_TKD), v_TKD)
        return self.o_proj(o_TND.flatten(1))


class MLP(nn.Module):
    """SwiGLU; one matrix projects to the gate and the up part."""

    def __init__(self, arch: DenseArch) -> None:
        super().__init__()
        inner = arch.intermediate_size
        self.gate_up_proj = Linear(arch.hidden_size, 2 * inner, bias=arch.mlp_bias)
        self.down_proj = Linear(inner, arch.hidden_size, bias=arch.mlp_bias)

    def forward(self, x_TH: torch.Tensor) -> torch.Tensor:
        return self.down_proj(silu_and_mul(self.gate_up_proj(x_TH)))


class DecoderLayer(nn.Module):
    """Attention and MLP, each behind a norm and around a residual."""

    def __init__(self, arch: DenseArch, layer: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.attention = Attention(arch, layer)
        self.mlp_norm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.mlp = MLP(arch)

    def forward(self, x_TH: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        x_TH = x_TH + self.attention(self.attention_norm(x_TH), rotary, attend)
        return x_TH + self.mlp(self.mlp_norm(x_TH))


class DenseModel(Model):
    """The whole decoder."""

    def __init__(self, arch: DenseArch, device: torch.device) -> None:
        """`device` is where the angles are kept; the weights go where torch's default says."""
        super().__init__()
        self.embed_positions = RotaryEmbedding(arch.rope, arch.head_dim, device)
        self.embed_tokens = Embedding(arch.vocab_size, arch.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(arch, i) for i in range(arch.num_layers))
        self.norm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.lm_head = None
        if not arch.tie_word_embeddings:
            self.lm_head = Linear(arch.hidden_size, arch.vocab_size, bias=False)

    def forward(
        self, token_ids_T: torch.Tensor, positions_T: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        x_TH = self.embed_tokens(token_ids_T)
        rotary = self.embed_positions(positions_T, x_TH.dtype)
        for layer in self.layers:
            x_TH = layer(x_TH, rotary, attend)
        return self.norm(x_TH)

    def logits(self, x_RH: torch.Tensor) -> torch.Tensor:
        head = self.embed_tokens if self.lm_head is None else self.lm_head
        return F.linear(x_RH, head.weight).float()
