"""The sampler against a plain Python model of each rule, and against statistics."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from okibi.core.ids import RequestId
from okibi.core.plan import AdmittedRequest
from okibi.core.sampling import MAX_SEED, SamplingParams
from okibi.core.token_source import PackedTokens
from okibi.execution.runner.row_logits import row_logits
from okibi.execution.runner.sampler import SampledTokens, Sampler
from okibi.execution.runner.sampling_table import SamplingTable
from okibi.execution.runner.token_counts import TokenCounts

VOCAB_SIZE = 37
LOGITS = 2.0 * torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(0))
PROMPT = [1, 2, 3, 2]


class Table:
    """Requests admitted side by side, sampled together."""

    def __init__(self, vocab_size: int = VOCAB_SIZE) -> None:
        self.sampling = SamplingTable(vocab_size)
        self.counts = TokenCounts(vocab_size, torch.device("cpu"))
        self.sampler = Sampler(self.counts)
        self.names: list[RequestId] = []

    def admit(self, *, history: list[int] | None = None, stop_ids=(), **params: Any) -> None:
        values: dict[str, Any] = {"max_tokens": 1000, "seed": 0} | params
        sampling = SamplingParams(**values)
        name = RequestId(f"request {len(self.names)}")
        request = AdmittedRequest(
            request_id=name,
            num_prompt_tokens=len(PROMPT),
            sampling=sampling,
            stop_ids=tuple(stop_ids),
            history=PackedTokens.of(PROMPT if history is None else history).packed,
        )
        self.sampling.admit(len(self.names), request)
        self.counts.admit(request)
        self.names.append(name)

    def sample(self, logits: torch.Tensor = LOGITS, *, position: int = 0) -> SampledTokens:
        """One token for every request, all with these logits or each with its own row."""
        logits_RV = logits.expand(len(self.names), -1).clone()
        rows = np.arange(len(self.names))
        ends = np.full(len(self.names), len(PROMPT) + position)
        before = logits_RV.clone()
        sampled = self.sampler.sample(
            row_logits(logits_RV), self.sampling.batch(rows, ends), self.names
        )
        assert torch.allclose(logits_RV, before, rtol=0.0, atol=0.0, equal_nan=True)
        return sampled

    def tokens(self, logits: torch.Tensor = LOGITS, *, position: int = 0) -> list[int]:
        return self.sample(logits, position=position).token_ids_R.tolist()


def one(logits: torch.Tensor = LOGITS, *, position: int = 0, **admit: Any) -> int:
    table = Table()
    table.admit(**admit)
    return table.tokens(logits, position=position)[0]


def many(count: int, logits: torch.Tensor = LOGITS, **params: Any) -> Counter[int]:
    """Tokens that `count` seeds draw."""
    table = Table()
    for seed in range(count):
        values: dict[str, Any] = {"seed": seed} | params
        table.admit(**values)
    return Counter(table.tokens(logits))


def ranked(logits: torch.Tensor = LOGITS) -> list[int]:
    """Token ids by falling logit, smaller ids first among equals."""
    values = logits.tolist()
    return sorted(range(VOCAB_SIZE), key=lambda token: (-values[token], token))


BEST = ranked()[0]


class TestGreedy:
    def test_is_the_largest_logit(self):
        assert one(temperature=0.0) == BEST

    def test_is_the_smallest_id_of_equals(self):
        logits = torch.zeros(VOCAB_SIZE)
        logits[[30, 7, 12]] = 1.0
        assert one(logits, temperature=0.0) == 7

    def test_is_the_smallest_id_of_equals_in_a_wide_row(self):
        table = Table(vocab_size=50_000)
        table.admit(temperature=0.0)
        for tied in ([49_999, 20_001, 20_000], [8, 9], [49_998, 49_999]):
            logits = torch.zeros(50_000)
            logits[tied] = 1.0
            assert table.tokens(logits) == [min(tied)]

    def test_a_tiny_temperature_is_greedy_and_does_not_overflow(self):
        assert one(LOGITS * 1e6, temperature=1e-6) == BEST


class TestRandom:
    def test_frequencies_are_the_probabilities(self):
        count = 4000
        drawn = many(count, temperature=1.0)
        probabilities = LOGITS.softmax(-1).tolist()
        for token, probability in enumerate(probabilities):
            spread = math.sqrt(probability * (1 - probability) / count)
            assert abs(drawn[token] / count - probability) < 4.5 * spread + 1e-9

    def test_positions_of_one_seed_are_as_random_as_seeds(self):
        table = Table()
        table.admit(temperature=1.0, seed=7)
        drawn = Counter(table.tokens(position=position)[0] for position in range(2000))
        probability = LOGITS.softmax(-1)[BEST].item()
        spread = math.sqrt(probability * (1 - probability) / 2000)
        assert abs(drawn[BEST] / 2000 - probability) < 4.5 * spread

    def test_temperature_divides_the_logits(self):
        cold, hot = many(500, temperature=0.3), many(500, temperature=3.0)
        assert cold[BEST] > many(500, temperature=1.0)[BEST] > hot[BEST]

    def test_a_token_is_a_function_of_seed_and_position_only(self):
        alone = [one(temperature=1.0, seed=seed, position=9) for seed in range(40)]
        table = Table()
        for seed in range(40):
            table.admit(temperature=1.0, seed=seed)
            table.admit(temperature=0.7, seed=seed, top_p=0.5, logprobs=3)
        assert table.tokens(position=9)[::2] == alone
        assert len(set(alone)) > 5

    def test_two_positions_and_two_seeds_differ(self):
        flat = torch.zeros(VOCAB_SIZE)
        by_position = {one(flat, temperature=1.0, position=position) for position in range(30)}
        assert len(by_position) > 10
        assert len(many(30, flat, temperature=1.0)) > 10

    @pytest.mark.parametrize("seed", [-MAX_SEED, -1, MAX_SEED])
    def test_every_seed_works(self, seed: int):
        assert 0 <= one(temperature=1.0, seed=seed) < VOCAB_SIZE


class TestTruncation:
    def test_top_k(self):
        assert set(many(600, temperature=1.5, top_k=3)) == set(ranked()[:3])

    def test_top_k_cuts_among_equals_by_id(self):
        assert set(many(300, torch.zeros(VOCAB_SIZE), temperature=1.0, top_k=4)) == {0, 1, 2, 3}

    def test_top_k_beyond_the_vocabulary_cuts_nothing(self):
        flat = torch.zeros(VOCAB_SIZE)
        assert len(many(1000, flat, temperature=1.0, top_k=10**9)) == VOCAB_SIZE

    @pytest.mark.parametrize("top_p", [0.01, 0.3, 0.6, 0.9])
    def test_top_p_keeps_the_fewest_that_reach_it(self, top_p: float):
        probabilities, total, expected = LOGITS.softmax(-1).tolist(), 0.0, set()
        for token in ranked():
            expected.add(token)
            total += probabilities[token]
            if total >= top_p:
                break
        drawn = many(3000, temperature=1.0, top_p=top_p)
        rare = {token for token in expected if probabilities[token] < 0.004}
        assert expected - rare <= set(drawn) <= expected

    def test_top_p_counts_within_top_k(self):
        """Of two equals each has one half after top_k = 2, so top_p = 0.5 leaves one."""
        logits = torch.zeros(VOCAB_SIZE)
        assert set(many(100, logits, temperature=1.0, top_k=2, top_p=0.5)) == {0}
        assert set(many(100, logits, temperature=1.0, top_k=2, top_p=0.51)) == {0, 1}

    def test_min_p_is_relative_to_the_best(self):
        probabilities = LOGITS.softmax(-1)
        floor = 0.2 * probabilities.max()
        expected = set((probabilities >= floor).nonzero()[:, 0].tolist())
        assert set(many(1500, temperature=1.0, min_p=0.2)) == expected
        assert set(many(50, temperature=2.0, min_p=1.0)) == {BEST}

    def test_rows_keep_their_own_cuts(self):
        table = Table()
        for params in ({"top_k": 1}, {"temperature": 0.0}, {"top_p": 1e-6}, {"min_p": 1.0}):
            values: dict[str, Any] = {"temperature": 5.0} | params
            table.admit(**values)
        assert table.tokens() == [BEST] * 4


class TestEdits:
    def test_a_bias_decides(self):
        worst = ranked()[-1]
        assert one(temperature=0.0, logit_bias=((worst, 100.0),)) == worst
        assert one(temperature=0.0, logit_bias=((BEST, -100.0),)) == ranked()[1]

    def test_ids_outside_of_the_vocabulary_change_nothing(self):
        bias = ((VOCAB_SIZE, 100.0), (-1, 100.0), (2**31 - 1, 100.0))
        strange = (VOCAB_SIZE, -5, 2**31 - 1)
        assert one(temperature=0.0, logit_bias=bias, stop_ids=strange, min_tokens=5) == BEST
        assert one(temperature=0.0, history=[10**6, -3], repetition_penalty=2.0) == BEST

    def test_stop_ids_wait_for_min_tokens(self):
        patient: dict[str, Any] = {"temperature": 0.0, "min_tokens": 3, "stop_ids": (BEST,)}
        assert [one(position=position, **patient) == BEST for position in range(5)] == [
            False,
            False,
            False,
            True,
            True,
        ]

    def test_a_masked_token_cannot_be_biased_back(self):
        token = one(temperature=0.0, min_tokens=1, stop_ids=(BEST,), logit_bias=((BEST, 100.0),))
        assert token == ranked()[1]

    def test_edits_stay_in_their_row(self):
        table = Table()
        table.admit(temperature=0.0)
        table.admit(temperature=0.0, logit_bias=((5, 100.0),))
        table.admit(temperature=0.0, min_tokens=1, stop_ids=(BEST,))
        assert table.tokens() == [BEST, 5, ranked()[1]]


class TestPenalties:
    def expected(self, history: list[int], **penalties: float) -> int:
        output = Counter(history[len(PROMPT) :])
        logits = LOGITS.tolist()
        for token in set(history):
            factor = penalties.get("repetition_penalty", 1.0)
            logits[token] = logits[token] / factor if logits[token] > 0 else logits[token] * factor
        for token, count in output.items():
            logits[token] -= penalties.get("frequency_penalty", 0.0) * count
            logits[token] -= penalties.get("presence_penalty", 0.0)
        return ranked(torch.tensor(logits))[0]

    @pytest.mark.parametrize(
        "penalties",
        [
            {"presence_penalty": 2.0},
            {"frequency_penalty": 1.0},
            {"repetition_penalty": 3.0},
            {"repetition_penalty": 0.5},
            {"presence_penalty": -2.0, "frequency_penalty": 0.5, "repetition_penalty": 1.3},
        ],
    )
    def test_equal_a_plain_computation(self, penalties: dict[str, float]):
        second = ranked()[1]
        histories = [
            PROMPT,
            [*PROMPT, BEST],
            [*PROMPT, BEST, second, second, BEST],
            [BEST, 2, 3, second],
            [*PROMPT, *ranked()[:9]],
        ]
        table = Table()
        for history in histories:
            table.admit(history=history, temperature=0.0, **penalties)
        assert table.tokens() == [self.expected(history, **penalties) for history in histories]

    def test_sampled_tokens_count_at_once(self):
        """Five steps on the device equal five fresh starts with a longer history."""
        table, history = Table(), list(PROMPT)
        table.admit(temperature=0.0, presence_penalty=1.0, frequency_penalty=1.0)
        table.admit(temperature=0.0)
        for position in range(5):
            token, plain = table.tokens(position=position)
            expected = self.expected(history, presence_penalty=1.0, frequency_penalty=1.0)
            assert (token, plain) == (expected, BEST)
            history.append(token)
        assert len(set(history[len(PROMPT) :])) > 1

    def test_a_prompt_token_is_not_a_generated_one(self):
        prompt = [BEST, 2, 3, 4]
        assert one(history=prompt, temperature=0.0, presence_penalty=2.0) == BEST
        assert one(history=prompt, temperature=0.0, repetition_penalty=10.0) != BEST


class TestLogprobs:
    def test_are_those_of_the_unmodified_logits(self):
        table = Table()
        worst = ranked()[-1]
        table.admit(
            temperature=0.1,
            top_k=1,
            logit_bias=((worst, 100.0),),
            repetition_penalty=2.0,
            logprobs=4,
        )
        sampled = table.sample()
        expected = LOGITS.log_softmax(-1)
        assert sampled.token_ids_R.tolist() == [worst]
        assert sampled.logprobs is not None
        assert sampled.logprobs.chosen_L[0] == expected[worst]
        assert sampled.logprobs.top_ids_LN[0].tolist() == ranked()[:4]
        assert sampled.logprobs.top_LN[0].equal(expected[ranked()[:4]])

    def test_only_rows_that_asked_have_them(self):
        table = Table()
        for logprobs in (None, 2, None, 0):
            table.admit(temperature=0.0, logprobs=logprobs)
        found = table.sample().logprobs
        assert found is not None
        assert (found.rows, found.num_top) == ([1, 3], [2, 0])

    def test_nobody_asking_costs_nothing(self):
        table = Table()
        table.admit(temperature=0.0)
        assert table.sample().logprobs is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_told(value: float, temperature: float):
    logits = LOGITS.clone()
    logits[3] = value
    table = Table()
    table.admit(temperature=temperature, top_p=0.9)
    sampled = table.sample(logits)
    assert sampled.finite_R.tolist() == [False]
    assert 0 <= sampled.token_ids_R.item() < VOCAB_SIZE


def test_a_table_grows_and_keeps_its_rows():
    table = Table()
    for index in range(70):
        table.admit(temperature=0.0, logit_bias=((index % VOCAB_SIZE, 100.0),))
    assert table.tokens() == [index % VOCAB_SIZE for index in range(70)]
