"""Turns batch plans into forward passes: request state, input batch, sampling.

model_runner      one step: plan in, sampled tokens out
request_rows      which row of the tables a request has
block_tables      the pages of each request, on the device
input_batch       the flattened tokens of a plan, and where their keys and values go
paged_context     a model's `attend` over pages
token_ring        sampled tokens that later plans may refer to
sampling_table    sampling parameters as arrays, one row a request
token_counts      which tokens a request has seen, for penalties
sampler           logits in, tokens and logprobs out
"""
