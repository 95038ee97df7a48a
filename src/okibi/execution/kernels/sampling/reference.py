"""Penalties, truncation and the draw, over rows of logits, in plain torch.

Each function takes rows of logits [R, V] in float32 and one parameter a row [R, 1]. Sums of
probabilities are float64, so that they do not depend on how a vector unit splits a row.
"""

import torch

NUM_CANDIDATES = 1024


def penalise(
    logits_RV: torch.Tensor,
    output_counts_RV: torch.Tensor,
    in_prompt_RV: torch.Tensor,
    *,
    repetition_R1: torch.Tensor,
    frequency_R1: torch.Tensor,
    presence_R1: torch.Tensor,
) -> torch.Tensor:
    """Apply the repetition penalty (Keskar et al. 2019, CTRL), then OpenAI's two.

    Args:
        output_counts_RV: How often each token was generated.
        in_prompt_RV: Whether it is in the prompt.
    """
    generated_RV = output_counts_RV > 0
    repeated_RV = torch.where(logits_RV > 0, logits_RV / repetition_R1, logits_RV * repetition_R1)
    penalised_RV = torch.where(generated_RV | in_prompt_RV, repeated_RV, logits_RV)
    return penalised_RV - frequency_R1 * output_counts_RV - presence_R1 * generated_RV


def cut_top_k_top_p(
    logits_RV: torch.Tensor, top_k_R1: torch.Tensor, top_p_R1: torch.Tensor
) -> torch.Tensor:
    """Keep the `top_k` largest logits, then of those the fewest whose probabilities reach `top_p`.

    The token that crosses `top_p` is kept (Holtzman et al. 2020). Of equal logits the smaller id
    ranks first. `top_k` of at least V and `top_p` of 1 keep all. A whole vocabulary is sorted only
    if a row needs more than its `NUM_CANDIDATES` best tokens.
    """
    vocab_size = logits_RV.shape[-1]
    num_candidates = min(NUM_CANDIDATES, vocab_size)
    sorted_RC = logits_RV.topk(num_candidates).values
    kept_RC = _kept_ranks(sorted_RC, logits_RV, top_k_R1, top_p_R1)
    # Probabilities within a top_k need all of its logits.
    needs_more_R1 = kept_RC[:, -1:] | ((num_candidates < top_k_R1) & (top_k_R1 < vocab_size))
    if num_candidates < vocab_size and bool(needs_more_R1.any()):
        sorted_RC = logits_RV.sort(dim=-1, descending=True).values
        kept_RC = _kept_ranks(sorted_RC, logits_RV, top_k_R1, top_p_R1)
    num_kept_R1 = kept_RC.sum(dim=-1, keepdim=True).clamp_(min=1)
    last_R1 = sorted_RC.gather(-1, num_kept_R1 - 1)
    num_equal_R1 = num_kept_R1 - (sorted_RC > last_R1).sum(dim=-1, keepdim=True)
    equal_RV = logits_RV == last_R1
    first_RV = equal_RV & (equal_RV.cumsum(dim=-1, dtype=torch.int32) <= num_equal_R1)
    return logits_RV.masked_fill(~(first_RV | (logits_RV > last_R1)), -torch.inf)


def _kept_ranks(
    sorted_RC: torch.Tensor,
    logits_RV: torch.Tensor,
    top_k_R1: torch.Tensor,
    top_p_R1: torch.Tensor,
) -> torch.Tensor:
    """Which of the largest logits stay; a row that keeps its last one may need more of them.

    `top_k` is at most the number of `sorted_RC`, or no cut at all.
    """
    weights_RC = (sorted_RC - sorted_RC[:, :1]).double().exp()
    in_top_k_RC = torch.arange(sorted_RC.shape[-1], device=sorted_RC.device) < top_k_R1
    all_RV = (logits_RV - sorted_RC[:, :1]).exp()
    all_R1 = all_RV.sum(dim=-1, keepdim=True, dtype=torch.float64)
    some_R1 = (weights_RC * in_top_k_RC).sum(dim=-1, keepdim=True)
    total_R1 = torch.where(top_k_R1 <= sorted_RC.shape[-1], some_R1, all_R1)
    before_RC = weights_RC.cumsum(dim=-1) - weights_RC
    return in_top_k_RC & ((before_RC < top_p_R1 * total_R1) | (top_p_R1 >= 1.0))


def cut_min_p(logits_RV: torch.Tensor, min_p_R1: torch.Tensor) -> torch.Tensor:
    """Drop tokens less likely than `min_p` times the most likely one (Nguyen et al. 2024)."""
    floor_R1 = logits_RV.amax(dim=-1, keepdim=True) + min_p_R1.log()
    return logits_RV.masked_fill(logits_RV < floor_R1, -torch.inf)


def draw(logits_RV: torch.Tensor, uniform_R1: torch.Tensor) -> torch.Tensor:
    """Invert the cumulative distribution, in the order of token ids, at `uniform_R1`.

    In that order a rounding error in a logit moves a boundary by as much as the error; in order
    of probability it could swap two tokens. Returns token_ids_R (int64).
    """
    weights_RV = (logits_RV - logits_RV.amax(dim=-1, keepdim=True)).exp()
    cumulative_RV = weights_RV.cumsum(dim=-1, dtype=torch.float64)
    threshold_R1 = uniform_R1 * cumulative_RV[:, -1:]
    token_ids_R1 = torch.searchsorted(cumulative_RV, threshold_R1, right=True)
    return token_ids_R1.squeeze(-1).clamp_(max=logits_RV.shape[-1] - 1)
