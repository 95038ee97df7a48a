"""The fake model: every token matters, and sampling keeps its rules."""

from collections import Counter

from okibi.core.sampling import SamplingParams
from okibi.sim.fake_model import FakeModel
from tests.support.builders import greedy, unique_ids


def test_every_token_changes_the_output():
    model = FakeModel()
    prompt = unique_ids("p", 50)
    outputs = {tuple(model.generate(prompt, greedy(4)))}
    for position in range(len(prompt)):
        changed = [*prompt[:position], prompt[position] + 1, *prompt[position + 1 :]]
        outputs.add(tuple(model.generate(changed, greedy(4))))
    assert len(outputs) == 51


def test_salts_and_seeds_differ_and_greedy_ignores_the_seed():
    model = FakeModel()
    seeds = [
        tuple(model.generate([1, 2], SamplingParams(max_tokens=4, seed=seed))) for seed in range(3)
    ]
    assert len(set(seeds)) == 3
    assert model.generate([1, 2], greedy(4, seed=1)) == model.generate([1, 2], greedy(4, seed=2))
    assert model.generate([1, 2], greedy(4), cache_salt="x") != model.generate([1, 2], greedy(4))


def test_end_of_sequence_comes_with_its_probability():
    model = FakeModel(vocab_size=50, eos_token_id=7, eos_probability=0.25)
    drawn = Counter(
        model.sample(state * 0x9E3779B97F4A7C15 % 2**64, greedy(4), 0, ()) for state in range(4000)
    )
    assert 800 < drawn[7] < 1200
    never = FakeModel(vocab_size=50, eos_token_id=7)
    assert 7 not in {never.sample(state, greedy(4), 0, ()) for state in range(4000)}


def test_stop_ids_are_masked_until_min_tokens():
    model = FakeModel(vocab_size=8, eos_token_id=7, eos_probability=0.5)
    for seed in range(50):
        sampling = SamplingParams(max_tokens=20, min_tokens=5, seed=seed)
        output = model.generate([1], sampling, stop_ids=(7, 3))
        assert len(output) > 5 or len(output) == 20
        assert not {7, 3} & set(output[:5])
