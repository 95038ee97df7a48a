"""Turns batch plans into forward passes: request state, input batch, sampling.

model_runner      one step: plan in, sampled tokens out
request_rows      which row of the tables a request has
block_tables      the pages of each request, on the device
input_batch       the flattened tokens of a plan, and which sequence each belongs to
program           a model over pages, a batch in, logits out: native_program, torch_program
token_ring        sampled tokens that later plans may refer to
sampling_table    sampling parameters as arrays, one row a request
token_counts      which tokens a request has seen, for penalties
sampler           logits in, tokens and logprobs out
"""
