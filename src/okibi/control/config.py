"""What a replica may do at most, and in which order.

Names and meanings are vLLM's where vLLM has the flag.
"""

from dataclasses import dataclass

from okibi.control.scheduler.queue import QUEUE_POLICIES
from okibi.core.command_options import flag_name
from okibi.core.errors import ConfigError
from okibi.core.kv_layout import KVCacheLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Limits and policies of one replica.

    Attributes:
        model_fingerprint: Identity of weights and config; different models share no blocks.
        max_model_len: Most tokens of one sequence, prompt and output.
        max_num_seqs: Requests that run at the same time.
        max_num_batched_tokens: Tokens computed in one step.
        long_prefill_token_threshold: Most new tokens of one request in a step; 0 for no cap.
        max_num_queued: Requests that may wait beyond those that can run.
        max_num_queued_tokens: Prompt tokens that may wait.
        scheduling_policy: `fcfs` or `priority`.
        eviction_policy: Which cached blocks go first.
        max_inflight_steps: Plans handed out before the first of them has come back.
        eos_token_ids: Tokens that end a generation.
    """

    model_fingerprint: str
    max_model_len: int
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    long_prefill_token_threshold: int = 0
    max_num_queued: int = 256
    max_num_queued_tokens: int = 4_000_000
    scheduling_policy: str = "fcfs"
    eviction_policy: str = "lru"
    max_inflight_steps: int = 1
    eos_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{flag_name(name)} must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} must be at least "
                f"--max-num-seqs {self.max_num_seqs}, or running requests could not all decode"
            )
        if not 0 <= self.long_prefill_token_threshold < self.max_num_batched_tokens:
            raise ConfigError(
                f"--long-prefill-token-threshold {self.long_prefill_token_threshold} has no "
                f"effect unless it is below --max-num-batched-tokens "
                f"{self.max_num_batched_tokens}: lower it or remove it"
            )
        if self.scheduling_policy not in QUEUE_POLICIES:
            known = ", ".join(QUEUE_POLICIES)
            raise ConfigError(f"--scheduling-policy must be one of {known}")
        if not 1 <= self.max_inflight_steps <= 2:
            raise ConfigError("--max-inflight-steps must be 1 or 2")

    @property
    def max_unfinished(self) -> int:
        """Requests that may run or wait at the same time."""
        return self.max_num_seqs + self.max_num_queued

    def servable_len(self, layout: KVCacheLayout) -> int:
        """The longest sequence that the model allows and an empty pool can hold."""
        return min(self.max_model_len, layout.max_tokens())
