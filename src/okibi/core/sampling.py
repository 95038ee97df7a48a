"""How the next token is chosen from the logits of one request.

Owns the values and their valid ranges; knows nothing of tensors. Temperature 0 means greedy:
the smallest token id among the largest logits. Randomness is a function of (seed, position), so
that preemption, chunking or batching never change what a seeded request says.
"""

from dataclasses import dataclass

MAX_LOGPROBS = 20
MAX_STOP_TOKEN_IDS = 1024
MAX_LOGIT_BIAS = 1024
MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Parameters of one generation.

    Attributes:
        max_tokens: Most tokens to generate, at least 1.
        min_tokens: End-of-sequence and stop tokens are masked until this many were generated.
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_p, top_k, min_p: Truncations, applied in the order top_k, top_p, min_p; 1.0, 0 and
            0.0 switch them off. `min_p` is relative to the largest probability.
        presence_penalty, frequency_penalty: Subtracted for tokens already generated (OpenAI).
        repetition_penalty: Divides positive and multiplies negative logits of tokens in the
            prompt or output (Keskar et al. 2019, CTRL); 1.0 switches it off.
        logit_bias: (token id, bias) pairs added before everything else.
        seed: None draws one when the request arrives.
        ignore_eos: Keep generating past the end-of-sequence token.
        stop_token_ids: Further tokens that end the generation.
        logprobs: None for none, else how many alternatives are reported beside the chosen token.
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be between {low} and {high}, got {value}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.repetition_penalty <= 0.0:
            raise ValueError("repetition_penalty must be greater than 0")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})"
            )
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise ValueError(f"logprobs must be between 0 and {MAX_LOGPROBS}")
        if self.seed is not None and not -MAX_SEED <= self.seed <= MAX_SEED:
            raise ValueError("seed must fit in a signed 64-bit integer")
        self._check_lengths()

    def _check_lengths(self) -> None:
        if len(self.logit_bias) > MAX_LOGIT_BIAS:
            raise ValueError(f"logit_bias takes at most {MAX_LOGIT_BIAS} entries")
        if len(self.stop_token_ids) > MAX_STOP_TOKEN_IDS:
            raise ValueError(f"stop_token_ids takes at most {MAX_STOP_TOKEN_IDS} entries")
        if not all(-100.0 <= bias <= 100.0 for _, bias in self.logit_bias):
            raise ValueError("logit_bias values must be between -100 and 100")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def needs_history(self) -> bool:
        """Whether choosing a token needs the ids of earlier ones."""
        return (
            self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.repetition_penalty != 1.0
        )


_RANGES = (
    ("max_tokens", 1, 2**31 - 1),
    ("min_tokens", 0, 2**31 - 1),
    ("temperature", 0.0, 100.0),
    ("top_k", 0, 2**31 - 1),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 0.0, 100.0),
)
