"""Every numerical tolerance of the tests, each with its reason.

Logits of tiny models have a standard deviation of about 1, so absolute numbers can be read as
relative ones.
"""

FLOAT32_LOGITS = 2e-5
"""Same float32 weights, other order of sums: fused projections and another attention kernel.
Measured at most 5e-6 over all families; a wrong mask, rope or norm moves logits by 1e-2 and more.
"""
