import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.bench.workload.chains import shared_prefix
from okibi.bench.workload.scale import scale_trace
from okibi.bench.workload.trace import TraceError
from okibi.bench.workload.tree import build_tree
from tests.unit.bench.traces import call, demo_trace, ids, trace


def test_a_factor_of_one_changes_nothing():
    assert scale_trace(demo_trace(), 1.0) == demo_trace()


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.5])
def test_other_factors_are_refused(factor):
    with pytest.raises(TraceError, match="--scale-tokens"):
        scale_trace(demo_trace(), factor)


@given(st.integers(0, 300), st.integers(0, 200), st.floats(0.02, 1.0))
def test_what_was_shared_stays_shared_in_proportion(shared, num_new, factor):
    common = ids(1, shared)
    first = call(0.0, common + ids(1000, 1000 + num_new))
    second = call(1.0, common + ids(2000, 2000 + num_new))
    scaled = scale_trace(trace(first, second), factor)
    a, b = scaled.calls
    assert abs(shared_prefix(a.hash_ids, b.hash_ids) - shared * factor) <= 1
    for original, small in zip((first, second), scaled.calls, strict=True):
        assert small.num_input_tokens == max(1, round(original.num_input_tokens * factor))
        assert len(set(small.hash_ids)) == len(small.hash_ids) <= small.num_input_tokens // 64


def test_structure_survives():
    whole = build_tree(demo_trace())
    half = build_tree(scale_trace(demo_trace(), 0.5))
    assert [node.conversation for node in half.nodes] == [n.conversation for n in whole.nodes]
    assert [node.after for node in half.nodes] == [node.after for node in whole.nodes]
