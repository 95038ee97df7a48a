"""Penalties, truncation and the draw, over rows of logits, in plain torch.

Each function takes rows of logits [R, V] in float32 and one parameter a row [R, 1]. Sums of
probabilities are float64, so that they do not depend on how a vector unit splits a row.
"""

import torch


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
    ranks first. `top_k` of at least V and `top_p` of 1 keep all.
    """
    sorted_RV, order_RV = logits_RV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(logits_RV.shape[-1], device=logits_RV.device)
    kept_RV = rank_V < top_k_R1
    probs_RV = sorted_RV.masked_fill(~kept_RV, -torch.inf).double().softmax(dim=-1)
    before_RV = probs_RV.cumsum(dim=-1) - probs_RV
    kept_RV &= (before_RV < top_p_R1) | (top_p_R1 >= 1.0)
    kept_RV = torch.empty_like(kept_RV).scatter_(-1, order_RV, kept_RV)
    return logits_RV.masked_fill(~kept_RV, -torch.inf)


def cut_min_p(logits_RV: torch.Tensor, min_p_R1: torch.Tensor) -> torch.Tensor:
    """Drop tokens less likely than `min_p` times the most likely one (Nguyen et al. 2024)."""
    floor_R1 = logits_RV.amax(dim=-1, keepdim=True) + min_p_R1.log()
    return logits_RV.masked_fill(logits_RV < floor_R1, -torch.inf)


def draw(logits_RV: torch.Tensor, uniform_R1: torch.Tensor) -> torch.Tensor:
    """Invert the cumulative distribution, in the order of token ids, at `uniform_R1`.

    In that order a rounding error in a logit moves a boundary by as much as the error; in order
    of probability it could swap two tokens. Returns token_ids_R (int64).
    """
    cumulative_RV = logits_RV.double().softmax(dim=-1).cumsum(dim=-1)
    threshold_R1 = uniform_R1 * cumulative_RV[:, -1:]
    token_ids_R1 = torch.searchsorted(cumulative_RV, threshold_R1, right=True)
    return token_ids_R1.squeeze(-1).clamp_(max=logits_RV.shape[-1] - 1)
