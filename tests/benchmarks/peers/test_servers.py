"""Settings that make a comparison fair: same memory, weights and context for all."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers.agents import MAX_CONTEXT, TEMPLATE_ROOM
from benchmarks.peers.cases import FULL, SLOT_CONTEXT, Stage, StreamsCase
from benchmarks.peers.servers import Peers
from benchmarks.peers.setup.llamacpp import LlamaCppInstall
from benchmarks.peers.setup.models import ModelForms
from benchmarks.peers.setup.vllm import VllmInstall
from benchmarks.peers.variants import (
    LLAMACPP_BF16,
    LLAMACPP_Q4_1,
    OKIBI_BF16,
    OKIBI_Q4_1,
    VARIANTS,
    VLLM_BF16,
)

PEERS = Peers(
    vllm=VllmInstall(python=Path("/vllm/python"), preload=("a.so", "b.so")),
    llamacpp=LlamaCppInstall(
        server=Path("/server"), quantize=Path("/q"), convert=Path("/c"), convert_path=Path("/p")
    ),
    model=ModelForms(
        hf=Path("/hf"),
        bf16_gguf=Path("/bf16.gguf"),
        q4_1_gguf=Path("/q4_1.gguf"),
        vocab_size=1000,
        kv_bytes_per_token=10,
    ),
    kv_tokens=54_016,
    cache=Path("/cache"),
)


def words(variant, stage: Stage = Stage.REPLAY) -> tuple[str, ...]:
    return PEERS.spec(variant, stage, 1234).command


def value(command: tuple[str, ...], flag: str) -> str:
    return command[command.index(flag) + 1]


@pytest.mark.parametrize(
    ("variant", "weights"),
    [
        (OKIBI_BF16, "/hf"),
        (OKIBI_Q4_1, "/q4_1.gguf"),
        (VLLM_BF16, "/hf"),
        (LLAMACPP_BF16, "/bf16.gguf"),
        (LLAMACPP_Q4_1, "/q4_1.gguf"),
    ],
)
def test_a_variant_is_served_from_its_form_of_the_weights(variant, weights):
    assert weights in words(variant)


def test_every_server_listens_where_it_is_asked():
    for variant in VARIANTS:
        spec = PEERS.spec(variant, Stage.SINGLE, 1234)
        assert value(spec.command, "--port") == "1234"
        assert spec.url == f"http://{value(spec.command, '--host')}:1234"


def test_no_server_gets_more_memory_or_context_than_another():
    for variant in (OKIBI_BF16, OKIBI_Q4_1, VLLM_BF16):
        assert value(words(variant), "--kv-cache-memory-bytes") == "540160"
        assert value(words(variant), "--max-model-len") == str(SLOT_CONTEXT)
    num_slots, context = PEERS.slots(Stage.REPLAY)
    assert num_slots * context <= PEERS.kv_tokens < (num_slots + 1) * context
    assert context >= MAX_CONTEXT + TEMPLATE_ROOM
    assert value(words(LLAMACPP_Q4_1), "--ctx-size") == str(num_slots * context)


def test_slots_hold_what_a_stage_sends():
    assert PEERS.slots(Stage.SINGLE) == (1, SLOT_CONTEXT)
    num_slots, context = PEERS.slots(Stage.STREAMS)
    for case in FULL:
        if isinstance(case, StreamsCase):
            assert case.num_streams <= num_slots
            assert case.context + case.num_output <= context


def test_one_slot_is_there_however_little_memory():
    assert replace(PEERS, kv_tokens=1).slots(Stage.REPLAY)[0] == 1
