"""The dense decoder on the native kernels, made from a checkpoint.

Packs one layer after another; the file stays mapped meanwhile and nothing else holds its weights.
"""

from okibi._native import DecoderShape, DenseDecoder
from okibi.core.arch.dense import DenseArch
from okibi.execution.layers.rotary import scaled_frequencies
from okibi.execution.models.checkpoint import Checkpoint
from okibi.execution.models.dense.native_weights import NativeWeights
from okibi.execution.models.native import NativeModel, NativeOptions, NativeUnavailable


def load_native(arch: DenseArch, checkpoint: Checkpoint, options: NativeOptions) -> NativeModel:
    """Make the decoder and fill it.

    Raises:
        ModelError: the checkpoint does not fit the architecture, or cannot be read.
        NativeUnavailable: the kernels cannot run such an architecture.
    """
    weights = NativeWeights(arch, checkpoint, options.dtype)
    try:
        embedding = weights.matrix("model.embed_tokens.weight")
        head = embedding if arch.tie_word_embeddings else weights.matrix("lm_head.weight")
        return DenseDecoder(
            options.level,
            options.num_threads,
            _shape(arch),
            [weights.layer(index) for index in range(arch.num_layers)],
            embedding,
            weights.vector("model.norm.weight"),
            head,
        )
    except ValueError as error:
        raise NativeUnavailable(str(error)) from error


def _shape(arch: DenseArch) -> DecoderShape:
    frequencies, magnitude = scaled_frequencies(arch.rope, arch.head_dim)
    return DecoderShape(
        hidden_size=arch.hidden_size,
        intermediate_size=arch.intermediate_size,
        vocab_size=arch.vocab_size,
        num_heads=arch.num_heads,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        norm_epsilon=arch.rms_norm_eps,
        rope_frequencies=frequencies.tolist(),
        rope_magnitude=magnitude,
    )
