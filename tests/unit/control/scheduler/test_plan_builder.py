"""What a plan is made of."""

import sys
from array import array

from okibi.control.scheduler.plan_builder import PlanBuilder
from okibi.core.chain_hash import root_digest
from okibi.core.ids import RequestId, StepId
from okibi.core.token_source import PackedTokens, TokenSequence
from okibi.kvcache.manager import KVCacheManager
from okibi.sim.plan_codec import decode_plan, encode_plan
from tests.support.builders import make_layout, unique_ids

NUM_TOKENS, BLOCK_TOKENS = 142_000, 16
NUM_BLOCKS = NUM_TOKENS // BLOCK_TOKENS


def sequence_of(ids: list[int]) -> TokenSequence:
    return TokenSequence(PackedTokens.of(ids), unit=BLOCK_TOKENS, root=root_digest("model", ""))


def test_a_long_hit_builds_no_object_per_block_between_manager_and_executor() -> None:
    manager = KVCacheManager(make_layout(num_pages=2 * NUM_BLOCKS, block_tokens=BLOCK_TOKENS))
    ids = unique_ids("conversation", NUM_TOKENS)
    first, second = sequence_of(ids), sequence_of([*ids, 1])
    allocation = manager.begin(manager.match(first), 0.0)
    manager.grow(allocation, NUM_TOKENS)
    manager.end(allocation, first, NUM_TOKENS, 0.0)
    match = manager.match(second)
    assert match.num_tokens == NUM_BLOCKS * BLOCK_TOKENS

    num_objects = sys.getallocatedblocks()
    allocation = manager.begin(match, 1.0)
    builder = PlanBuilder(StepId(0))
    builder.extend_tables(RequestId("r"), manager.block_tables(allocation))
    plan = builder.build(()).plan
    decoded = decode_plan(encode_plan(plan))
    assert sys.getallocatedblocks() - num_objects < NUM_BLOCKS // 20

    (update,) = decoded.table_updates
    assert array("i", update.pages) == array("i", range(NUM_BLOCKS))
