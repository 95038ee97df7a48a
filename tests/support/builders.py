"""Builders of the values tests need, each valid as it stands and changed by keyword.

Owns no state and no assertions. Layouts are tiny on purpose, so that pools run full.
"""

from array import array
from collections.abc import Sequence
from itertools import islice
from math import gcd
from random import Random
from typing import Any

from okibi.control.config import ReplicaConfig
from okibi.control.replica import Replica
from okibi.core.ids import GroupId, RequestId, StepId
from okibi.core.kv_layout import GroupLayout, KVCacheLayout, LayerSlice
from okibi.core.kv_spec import FullAttentionSpec, KVDType
from okibi.core.plan import AdmittedRequest, BatchPlan, BlockTableUpdate, ScheduledChunk
from okibi.core.request import Request
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens, TokenSource
from okibi.kvcache.layout_solver import solve_layout

MAX_TOKEN_ID = 256
"""Ids stay small, so that the tiniest real model has them too."""


def make_specs(num_layers: int = 1) -> tuple[FullAttentionSpec, ...]:
    return tuple(
        FullAttentionSpec(layer=layer, num_kv_heads=1, head_dim=4, dtype=KVDType.FLOAT32)
        for layer in range(num_layers)
    )


def make_layout(
    *, num_pages: int = 64, block_tokens: int = 4, unit: int | None = None
) -> KVCacheLayout:
    """`unit` is the prefix match unit; a whole block by default."""
    return solve_layout(
        make_specs(),
        block_tokens=block_tokens,
        prefix_match_unit=unit or block_tokens,
        num_pages=num_pages,
    )


def make_grouped_layout(
    *shapes: tuple[int, int], num_pages: int = 64, unit: int | None = None
) -> KVCacheLayout:
    """A full-attention group for each (block_tokens, pages_per_block), a layer for each page.

    No solver makes such layouts yet: one liveness rule, several block tables.
    """
    specs = iter(make_specs(sum(pages_per_block for _, pages_per_block in shapes)))
    page_size_bytes = 0
    groups: list[GroupLayout] = []
    for block_tokens, pages_per_block in shapes:
        slices = tuple(
            LayerSlice(
                spec=spec,
                page_index=page_index,
                offset_bytes=0,
                num_bytes=spec.bytes_per_block(block_tokens),
            )
            for page_index, spec in enumerate(islice(specs, pages_per_block))
        )
        page_size_bytes = max(page_size_bytes, slices[0].num_bytes)
        groups.append(
            GroupLayout(
                group_id=GroupId(len(groups)),
                block_tokens=block_tokens,
                pages_per_block=pages_per_block,
                slices=slices,
            )
        )
    return KVCacheLayout(
        page_size_bytes=page_size_bytes,
        num_pages=num_pages,
        prefix_match_unit=unit or gcd(*(block_tokens for block_tokens, _ in shapes)),
        groups=tuple(groups),
    )


def make_config(**changes: Any) -> ReplicaConfig:
    values: dict[str, Any] = {
        "model_fingerprint": "test",
        "max_model_len": 1 << 20,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 32,
    }
    return ReplicaConfig(**(values | changes))


def make_replica(layout: KVCacheLayout | None = None, **changes: Any) -> Replica:
    return Replica(make_config(**changes), layout or make_layout())


def greedy(max_tokens: int = 4, **changes: Any) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, **changes)


def make_request(
    request_id: str,
    prompt: Sequence[int] | TokenSource | int = 8,
    *,
    max_tokens: int = 4,
    sampling: SamplingParams | None = None,
    **changes: Any,
) -> Request:
    """A request; a number stands for that many tokens nobody else has."""
    return Request(
        request_id=RequestId(request_id),
        prompt=_source(request_id, prompt),
        sampling=sampling or greedy(max_tokens),
        **changes,
    )


def _source(request_id: str, prompt: Sequence[int] | TokenSource | int) -> TokenSource:
    if isinstance(prompt, int):
        return PackedTokens.of(unique_ids(request_id, prompt))
    if isinstance(prompt, Sequence):
        return PackedTokens.of(prompt)
    return prompt


def unique_ids(name: str, count: int) -> list[int]:
    """Token ids that belong to a name; the longer list starts with the shorter one."""
    return Random(name).choices(range(MAX_TOKEN_ID), k=count)


def prompt_ids(request: Request) -> list[int]:
    packed = request.prompt.ids(0, len(request.prompt))
    assert packed is not None
    return list(memoryview(packed).cast("i"))


# -- plans by hand -------------------------------------------------------------------------


def admit(request: Request, **changes: Any) -> AdmittedRequest:
    values: dict[str, Any] = {
        "request_id": request.request_id,
        "num_prompt_tokens": len(request.prompt),
        "sampling": request.sampling,
        "stop_ids": (),
    }
    return AdmittedRequest(**(values | changes))


def pages(
    request: Request, *page_ids: int, start_block: int = 0, group: int = 0
) -> BlockTableUpdate:
    return BlockTableUpdate(
        request_id=request.request_id,
        group_id=GroupId(group),
        start_block=start_block,
        pages=array("i", page_ids).tobytes(),
    )


def chunk(
    request: Request, start: int, stop: int, *, output: Sequence[int] = (), **changes: Any
) -> ScheduledChunk:
    """Tokens `[start, stop)` of the prompt and the `output` after it; samples at the end."""
    ids = [*prompt_ids(request), *output]
    values: dict[str, Any] = {
        "request_id": request.request_id,
        "start": start,
        "num_tokens": stop - start,
        "tokens": PackedTokens.of(ids[start:stop]).packed,
        "samples": stop >= len(ids),
    }
    return ScheduledChunk(**(values | changes))


def plan(step_id: int, **parts: Any) -> BatchPlan:
    return BatchPlan(step_id=StepId(step_id), **parts)
