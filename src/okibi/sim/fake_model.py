"""A language model whose next token is a hash of every token before it.

Owns the arithmetic of the checking executor. The state after a token is a 64-bit mix of that
token and the state before it, so two prefixes have equal states exactly if their tokens are
equal (up to collisions), and a generation is right only if every token it consumed was. That
makes "cached = cold, chunked = whole, preempted = not" provable without a tensor. It keeps no
state of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from okibi.core.output import TokenLogprobs
from okibi.core.sampling import SamplingParams

_MASK = (1 << 64) - 1
_ODD_A = 0x9E3779B97F4A7C15
_ODD_B = 0xBF58476D1CE4E5B9
_PROBABILITY_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """Deterministic next tokens.

    Attributes:
        vocab_size: Tokens are in `[0, vocab_size)`.
        eos_token_id: Drawn with `eos_probability` and never otherwise; None for none.
    """

    vocab_size: int = 997
    eos_token_id: int | None = None
    eos_probability: float = 0.0

    @staticmethod
    def root(cache_salt: str) -> int:
        """The state before the first token. Salts differ, so sharing across them is caught."""
        return int.from_bytes(blake2b(cache_salt.encode(), digest_size=8).digest(), "little")

    @staticmethod
    def next_state(state: int, token_id: int) -> int:
        """The state after one more token."""
        state = ((state ^ (token_id + 1)) * _ODD_A) & _MASK
        return ((state ^ (state >> 29)) * _ODD_B) & _MASK

    @classmethod
    def state_after(cls, state: int, token_ids: Iterable[int]) -> int:
        for token_id in token_ids:
            state = cls.next_state(state, token_id)
        return state

    def sample(
        self, state: int, sampling: SamplingParams, num_output: int, stop_ids: Sequence[int]
    ) -> int:
        """The token after `state`.

        Args:
            state: State after all tokens so far.
            sampling: Only `temperature`, `seed` and `min_tokens` matter here.
            num_output: Tokens generated so far.
            stop_ids: Masked until `min_tokens` were generated.
        """
        seed = 0 if sampling.is_greedy or sampling.seed is None else sampling.seed + 1
        draw = self.next_state(state, seed)
        masked = frozenset(stop_ids) if num_output < sampling.min_tokens else frozenset[int]()
        eos_token_id = self.eos_token_id
        if eos_token_id is not None and eos_token_id not in masked and self._ends(draw):
            return eos_token_id
        token_id = draw % self.vocab_size
        while token_id == eos_token_id or token_id in masked:
            token_id = (token_id + 1) % self.vocab_size
        return token_id

    def logprobs(self, token_id: int, num_top: int) -> TokenLogprobs:
        """A valid answer: the chosen token first, each next one half as likely."""
        top = tuple(((token_id + rank) % self.vocab_size, -0.5 - rank) for rank in range(num_top))
        return TokenLogprobs(token_id=token_id, logprob=-0.5, top=top)

    def generate(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        *,
        stop_ids: Sequence[int] = (),
        cache_salt: str = "",
    ) -> list[int]:
        """The whole generation from scratch: what any schedule must yield.

        `stop_ids` end it and are part of the result.
        """
        state = self.state_after(self.root(cache_salt), prompt)
        output: list[int] = []
        while len(output) < sampling.max_tokens:
            token_id = self.sample(state, sampling, len(output), stop_ids)
            output.append(token_id)
            if token_id in stop_ids:
                break
            state = self.next_state(state, token_id)
        return output

    def _ends(self, draw: int) -> bool:
        return (draw >> _PROBABILITY_BITS) < self.eos_probability * (1 << _PROBABILITY_BITS)
