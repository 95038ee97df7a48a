"""Digests of earlier turns are reused exactly as far as the tokens are equal."""

from okibi.core.chain_hash import root_digest
from okibi.core.token_source import PackedTokens, TokenSequence
from okibi.kvcache.chain_memo import ENTRY_TOKENS, ChainMemo

UNIT = 4


def sequence_of(ids: list[int], salt: str = "") -> TokenSequence:
    return TokenSequence(PackedTokens.of(ids), unit=UNIT, root=root_digest("model", salt))


def test_a_turn_adopts_what_it_shares_and_hashes_the_rest_right() -> None:
    memo = ChainMemo(unit=UNIT)
    memo.remember("c", sequence_of(list(range(40))))
    changed = [*range(21), 99, *range(22, 60)]
    turn = sequence_of(changed)
    memo.recall("c", turn)
    assert len(turn._digests) == 5 * 16
    assert turn.digests() == sequence_of(changed).digests()


def test_another_salt_or_conversation_adopts_nothing() -> None:
    memo = ChainMemo(unit=UNIT)
    memo.remember("c", sequence_of(list(range(40))))
    for conversation, salt in (("c", "tenant"), ("d", "")):
        turn = sequence_of(list(range(40)), salt)
        memo.recall(conversation, turn)
        assert not turn._digests


def test_the_memo_is_bounded_by_tokens() -> None:
    memo = ChainMemo(unit=UNIT, max_tokens=2 * (40 + ENTRY_TOKENS) + 20)
    for name in ("a", "b", "c"):
        memo.remember(name, sequence_of(list(range(40))))
    memo.remember("huge", sequence_of(list(range(1000))))
    kept = [name for name in ("a", "b", "c", "huge") if name in memo._entries]
    assert kept == ["b", "c"]
