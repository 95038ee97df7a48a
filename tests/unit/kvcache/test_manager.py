"""The manager: how a request's KV comes to be, page by page."""

from array import array

import pytest

from okibi.core.chain_hash import root_digest
from okibi.core.errors import ConfigError
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.token_source import PackedTokens, TokenSequence
from okibi.kvcache.layout_solver import solve_layout
from okibi.kvcache.manager import Allocation, KVCacheManager

UNIT, BLOCK = 4, 8


def make_manager(num_pages: int = 16) -> KVCacheManager:
    spec = FullAttentionSpec(layer=0, num_kv_heads=1, head_dim=8, dtype=KVDType.FLOAT32)
    layout = solve_layout([spec], block_tokens=BLOCK, prefix_match_unit=UNIT, num_pages=num_pages)
    return KVCacheManager(layout)


def sequence_of(ids: list[int], salt: str = "") -> TokenSequence:
    return TokenSequence(PackedTokens.of(ids), unit=UNIT, root=root_digest("model", salt))


def run(manager: KVCacheManager, ids: list[int], now: float = 0.0, salt: str = "") -> int:
    """A request that computes its whole prompt and ends; returns its hit."""
    sequence = sequence_of(ids, salt)
    hit = manager.match(sequence)
    allocation = manager.begin(hit, now)
    assert manager.grow(allocation, len(ids)) is not None
    manager.check([allocation])
    manager.end(allocation, sequence, len(ids), now)
    manager.check([])
    return hit.num_tokens


def test_a_resend_hits_all_but_the_last_unit() -> None:
    manager = make_manager()
    ids = list(range(20))
    assert run(manager, ids) == 0
    assert run(manager, ids) == 16, "never the last token, and whole units only"
    assert run(manager, [*ids, 99]) == 20, "a longer prompt hits what was computed"


def test_a_partial_page_is_copied_before_it_is_extended() -> None:
    manager = make_manager()
    run(manager, list(range(16)))
    sequence = sequence_of([*range(12), 50, 51, 52, 53])
    allocation = manager.begin(manager.match(sequence), 1.0)
    (copy,) = allocation.copies
    (table,) = manager.block_tables(allocation)
    pages = array("i", table.pages)
    assert copy.target == pages[1]
    assert copy.source not in pages
    assert manager.stats().num_in_use == 3, "whole block, copy's source and copy's target"
    manager.copies_done(allocation, 1.0)
    assert manager.stats().num_in_use == 2
    manager.end(allocation, sequence, 16, 2.0)
    manager.check([])
    assert run(manager, [*range(16), 1]) == 16, "the branch copied from is still there"
    assert run(manager, [*range(12), 50, 51, 52, 53, 1]) == 16


def test_salts_separate_tenants() -> None:
    manager = make_manager()
    ids = list(range(20))
    run(manager, ids, salt="x")
    assert run(manager, ids, salt="y") == 0
    assert run(manager, ids, salt="x") == 16


def test_num_pages_taken_is_what_available_pages_fall_by() -> None:
    manager = make_manager()
    run(manager, list(range(40)))
    run(manager, [*range(20), *range(70, 90)])
    for ids in (list(range(40)), [*range(22), 5], [*range(20), *range(70, 95)], [7, 8, 9]):
        sequence = sequence_of(ids)
        match = manager.match(sequence)
        before = manager.num_available_pages
        promised = manager.num_pages_taken(match, len(ids))
        allocation = manager.begin(match, 1.0)
        assert manager.grow(allocation, len(ids)) is not None
        assert before - manager.num_available_pages == promised
        manager.end(allocation, sequence, 0, 1.0)
        manager.check([])


def test_growth_evicts_what_nobody_uses_and_stops_at_what_somebody_does() -> None:
    manager = make_manager(num_pages=4)
    run(manager, list(range(16)), now=1.0)
    sequence = sequence_of(list(range(100, 124)))
    allocation = manager.begin(manager.match(sequence), 2.0)
    assert manager.grow(allocation, 24) is not None
    assert manager.grow(allocation, 33) is None
    manager.check([allocation])
    assert manager.match(sequence_of(list(range(17)))).num_tokens == 8


def test_reset_forgets_only_what_is_unused() -> None:
    manager = make_manager()
    run(manager, list(range(16)))
    held_ids = list(range(100, 117))
    held = sequence_of(held_ids)
    allocation: Allocation = manager.begin(manager.match(held), 1.0)
    manager.grow(allocation, 17)
    manager.publish(allocation, held, 16)
    manager.reset()
    assert manager.match(sequence_of(list(range(17)))).num_tokens == 0
    assert manager.match(sequence_of(held_ids)).num_tokens == 16
    assert manager.stats().num_evictable == 0


def test_check_finds_a_lost_page() -> None:
    manager = make_manager()
    sequence = sequence_of(list(range(9)))
    allocation = manager.begin(manager.match(sequence), 0.0)
    manager.grow(allocation, 9)
    with pytest.raises(AssertionError, match="lost"):
        manager.check([])
    allocation.tables[0].pages[0] = allocation.tables[0].pages[1]
    with pytest.raises(AssertionError, match="two owners"):
        manager.check([allocation])


def test_generated_tokens_are_cached_too() -> None:
    manager = make_manager()
    sequence = sequence_of(list(range(6)))
    allocation = manager.begin(manager.match(sequence), 0.0)
    for token in range(60, 70):
        sequence.append(token)
    manager.grow(allocation, 16)
    manager.publish(allocation, sequence, 15)
    assert manager.match(sequence_of([*range(6), *range(60, 64)])).num_tokens == 8
    manager.end(allocation, sequence, 15, 1.0)
    assert manager.match(sequence_of([*range(6), *range(60, 70)])).num_tokens == 12


def test_state_that_no_group_keeps_is_refused() -> None:
    class UnknownSpec(FullAttentionSpec):
        pass

    spec = UnknownSpec(layer=0, num_kv_heads=1, head_dim=8, dtype=KVDType.FLOAT32)
    layout = solve_layout([spec], block_tokens=BLOCK, prefix_match_unit=UNIT, num_pages=4)
    with pytest.raises(ConfigError, match="UnknownSpec"):
        KVCacheManager(layout)
