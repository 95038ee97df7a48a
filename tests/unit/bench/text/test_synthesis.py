import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.text.synthesis import SessionText, TextSynthesizer
from okibi.bench.text.vocabulary import Vocabulary, assumed_vocabulary
from okibi.bench.workload.synthetic import SyntheticConfig, generate_trace
from okibi.bench.workload.tree import SessionTree, build_tree
from tests.unit.bench.traces import call, demo_trace, ids, trace

SYNTHESIZER = TextSynthesizer(assumed_vocabulary(), 0)
MARKER = "[rid:000000000000]\n\n"


def prompts(tree: SessionTree, synthesizer=SYNTHESIZER, marker="") -> list[list[dict[str, str]]]:
    text = SessionText(tree, synthesizer, marker)
    return [text.messages(node) for node in tree.nodes]


def num_words(messages) -> int:
    return sum(len(message["content"].split()) for message in messages)


def test_prompts_have_as_many_words_as_recorded_tokens():
    tree = build_tree(demo_trace())
    assert [num_words(p) for p in prompts(tree)] == [400, 640, 832, 960, 384, 512]


@given(st.integers(0, 500))
def test_generated_sessions_have_exact_prompts_and_no_stray_spaces(seed):
    tree = build_tree(generate_trace(SyntheticConfig(seed=seed, subagent_probability=0.3), 0))
    for node, messages in zip(tree.nodes, prompts(tree), strict=True):
        assert num_words(messages) == node.call.num_input_tokens
        for message in messages:
            assert message["content"] == " ".join(message["content"].split())


def test_a_prompt_repeats_the_one_before_up_to_its_last_whole_block():
    tree = build_tree(trace(call(0.0, ids(1, 6), out=64), call(1.0, ids(1, 9))))
    first, second = prompts(tree)
    words = first[0]["content"].split()
    assert second[0]["content"].split() == words[: 6 * 64]
    assert [m["role"] for m in second] == ["user", "assistant", "user"]


def test_a_fork_sends_the_messages_that_it_shares_as_its_source_did():
    fork = call(3.0, [*ids(1, 8), 50])
    tree = build_tree(trace(call(0.0, ids(1, 6)), call(1.0, ids(1, 9)), fork, call(9.0, ids(1, 9))))
    sent = {
        node.conversation: messages
        for node, messages in zip(tree.nodes, prompts(tree), strict=False)
    }
    main, forked = prompts(tree)[1], sent["session::fa:000"]
    assert [m["role"] for m in forked] == [m["role"] for m in main] == ["user", "assistant", "user"]
    assert forked[:2] == main[:2]
    words = main[2]["content"].split()
    assert forked[2]["content"].split()[:64] == words[:64]


def test_equal_ids_are_equal_text_within_a_session_and_no_further():
    one = build_tree(trace(call(0.0, [1, 2, 1]), id="one"))
    two = build_tree(trace(call(0.0, [1, 2, 1]), id="two"))
    words = prompts(one)[0][0]["content"].split()
    assert words[:64] == words[128:192] != words[64:128]
    assert prompts(one) != prompts(two)
    assert prompts(one) == prompts(one)
    assert prompts(one, TextSynthesizer(assumed_vocabulary(), 1)) != prompts(one)


def test_sessions_of_one_scope_share_the_system_message_only():
    config = SyntheticConfig(shared_system=True)
    first, second = (build_tree(generate_trace(config, index)) for index in range(2))
    a, b = prompts(first)[0], prompts(second)[0]
    assert a[0] == b[0]
    assert a[0]["role"] == "system"
    assert a[1] != b[1]
    private = SyntheticConfig(shared_system=False)
    c, d = (prompts(build_tree(generate_trace(private, index)))[0] for index in range(2))
    assert c[0] != d[0]


def test_the_marker_opens_the_first_user_message_of_every_conversation():
    for messages in prompts(build_tree(demo_trace()), marker=MARKER):
        users = [m for m in messages if m["role"] == "user"]
        assert users[0]["content"].startswith(MARKER)
        assert not any(MARKER in m["content"] for m in messages if m is not users[0])


@pytest.mark.parametrize("tokens_per_word", [2.0, 4.5])
def test_words_of_several_tokens_are_used_in_proportion(tokens_per_word):
    vocabulary = Vocabulary(words=("ab", "cd"), tokens_per_word=tokens_per_word, source="mean")
    text = TextSynthesizer(vocabulary, 0).words("key", 640)
    assert len(text.split()) == round(640 / tokens_per_word)
