import pytest

from benchmarks.peers.cases import FULL, QUICK, SLOT_CONTEXT, DecodeCase, PrefillCase, select_cases
from okibi.core.errors import ConfigError


@pytest.mark.parametrize("suite", [FULL, QUICK])
def test_names_tell_cases_apart_and_prompts_fit_the_context(suite):
    assert len({case.name for case in suite}) == len(suite)
    for case in suite:
        if isinstance(case, PrefillCase):
            assert case.num_tokens + 1 <= SLOT_CONTEXT
        elif isinstance(case, DecodeCase):
            assert case.context + case.num_output <= SLOT_CONTEXT


def test_a_quick_run_measures_nothing_that_a_full_one_does_not():
    assert {case.name for case in QUICK} < {case.name for case in FULL}


def test_cases_are_named_one_by_one_or_by_kind():
    found = [case.name for case in select_cases(FULL, "streams/8, decode")]
    assert found == ["decode/100", "decode/4096", "decode/7000", "streams/8"]
    assert select_cases(QUICK, None) == QUICK


@pytest.mark.parametrize("words", ["", "decode/1", "prefill,deco"])
def test_a_word_that_names_no_case_is_refused(words):
    with pytest.raises(ConfigError, match="--cases"):
        select_cases(FULL, words)
