"""Every numerical tolerance of the tests, each with its reason.

Logits of tiny models have a standard deviation of about 1, so absolute numbers can be read as
relative ones.
"""

FLOAT32_LOGITS = 2e-5
"""Same float32 weights, other order of sums: fused projections and another attention kernel.
Measured at most 5e-6 over all families; a wrong mask, rope or norm moves logits by 1e-2 and more.
"""

FLOAT32_NEAR_TIE = 1e-3
"""Two tokens whose logits are this close may change places between two float32 implementations.
SmolLM2's logits reach 30 and pass 30 layers; both sides agree to about 1e-4. Measured: none of 744
tokens differs at all.
"""

FLOAT32_ATTENTION = 2e-6
"""Float32 against float64 over a few dozen keys, with values of about 1."""

FLOAT32_CUDA_LOGITS = 1e-4
"""Other matrix and softmax kernels. TensorFloat-32 is off by default in PyTorch; with it on, errors
would be 1e-3 and this fails."""

BFLOAT16_ERROR_RATIO = 1.5
"""How much larger the native kernels' root mean square error may be than torch's, both in bfloat16
and against float32. They round at fewer places (residuals and sums stay float32), but a mean over
some thousand logits scatters. Measured: 0.4 to 1.2.
"""
