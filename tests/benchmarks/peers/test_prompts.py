from benchmarks.peers.prompts import FIRST_ID, PromptSource


def test_a_prompt_depends_on_run_and_key_alone():
    source = PromptSource("run", 5000)
    assert source.token_ids("a", 50) == PromptSource("run", 5000).token_ids("a", 50)
    others = [source.token_ids("b", 50), PromptSource("other", 5000).token_ids("a", 50)]
    assert source.token_ids("a", 50)[:4] not in [ids[:4] for ids in others]


def test_ids_are_those_of_ordinary_tokens():
    ids = PromptSource("run", FIRST_ID + 3).token_ids("a", 200)
    assert len(ids) == 200
    assert set(ids) == {FIRST_ID, FIRST_ID + 1, FIRST_ID + 2}
