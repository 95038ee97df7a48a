"""Speed of the real executor on the default model, and where a step spends its time.

Drives `LocalExecutor` with plans alone: no scheduler, no server. Prefill is one chunk of a prompt a
step; decode is a batch of sequences at a context length, one token each a step. The profile of one
prefill and one decode step lists torch's operators by their own CPU time, or the native kernels'
phases. Every pair of the kernels and dtypes that are named is measured, one after another.

    python -m benchmarks.step_profile [--model NAME_OR_PATH] [--threads N]
        [--kernels reference native] [--dtype float32 bfloat16]
"""

import argparse
import statistics
from array import array
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from okibi.core.clock import WallClock
from okibi.core.ids import GroupId, RequestId, StepId
from okibi.core.kernels import KernelChoice
from okibi.core.plan import AdmittedRequest, BatchPlan, BlockTableUpdate, ScheduledChunk
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import PackedTokens
from okibi.execution.executors.local import LocalExecutor
from okibi.execution.models.family import Model
from okibi.execution.models.loader import LoadedModel, load_model
from okibi.kvcache.layout_solver import solve_layout
from okibi.launch.model_pull import resolve_model

BLOCK_TOKENS = 16
NUM_PAGES = 2048
CHUNK_TOKENS = 512
NUM_DECODE_STEPS = 15
NUM_PROFILE_ROWS = 14


class Bench:
    """An executor and the sequences it holds; every sequence has its own pages."""

    def __init__(self, model: LoadedModel) -> None:
        self.module = model.module
        self.executor = LocalExecutor(model, WallClock())
        self.executor.allocate(
            solve_layout(
                model.arch.kv_specs(model.dtype),
                block_tokens=BLOCK_TOKENS,
                prefix_match_unit=BLOCK_TOKENS,
                num_pages=NUM_PAGES,
            )
        )
        self._vocab_size = model.arch.vocab_size
        self._num_steps = 0
        self._num_pages = 0

    def step(self, **parts: tuple) -> float:
        """Run one plan; its seconds."""
        self._num_steps += 1
        self.executor.submit(BatchPlan(step_id=StepId(self._num_steps), **parts))
        return self.executor.collect().duration_s

    def admit(self, name: str, num_tokens: int) -> dict[str, tuple]:
        """The parts of a plan that admit a request with pages for `num_tokens`."""
        count = -(-num_tokens // BLOCK_TOKENS)
        pages = range(self._num_pages, self._num_pages + count)
        self._num_pages += count
        request_id = RequestId(name)
        admitted = AdmittedRequest(
            request_id=request_id,
            num_prompt_tokens=1,
            sampling=SamplingParams(max_tokens=1, temperature=0.0),
            stop_ids=(),
        )
        update = BlockTableUpdate(
            request_id=request_id,
            group_id=GroupId(0),
            start_block=0,
            pages=array("i", pages).tobytes(),
        )
        return {"admitted": (admitted,), "table_updates": (update,)}

    def chunk(self, name: str, start: int, num_tokens: int) -> ScheduledChunk:
        ids = [
            (7 * position + 13) % self._vocab_size for position in range(start, start + num_tokens)
        ]
        return ScheduledChunk(
            request_id=RequestId(name),
            start=start,
            num_tokens=num_tokens,
            tokens=PackedTokens.of(ids).packed,
            samples=True,
        )

    def prefill(self, name: str, num_tokens: int) -> float:
        """Prefill in chunks; seconds of all of them."""
        parts, total_s = self.admit(name, num_tokens), 0.0
        for start in range(0, num_tokens, CHUNK_TOKENS):
            length = min(CHUNK_TOKENS, num_tokens - start)
            total_s += self.step(**parts, chunks=(self.chunk(name, start, length),))
            parts = {}
        return total_s

    def forget(self, names: list[str]) -> None:
        self.step(finished=tuple(RequestId(name) for name in names))
        self._num_pages = 0


@dataclass(frozen=True)
class Result:
    what: str
    tokens_per_s: float
    step_ms: float


def measure_prefill(bench: Bench, num_tokens: int) -> Result:
    times = []
    for _ in range(3):
        times.append(bench.prefill("prompt", num_tokens))
        bench.forget(["prompt"])
    best_s = min(times)
    num_steps = -(-num_tokens // CHUNK_TOKENS)
    return Result(f"prefill {num_tokens}", num_tokens / best_s, 1000 * best_s / num_steps)


def measure_decode(bench: Bench, batch: int, context: int) -> Result:
    """The context is blank pages: a step takes as long whatever they hold."""
    names = [f"sequence {index}" for index in range(batch)]
    for name in names:
        bench.step(**bench.admit(name, context + NUM_DECODE_STEPS))
    times = [
        bench.step(chunks=tuple(bench.chunk(name, context + step, 1) for name in names))
        for step in range(NUM_DECODE_STEPS)
    ]
    bench.forget(names)
    median_s = statistics.median(times)
    return Result(f"decode, {batch} at {context}", batch / median_s, 1000 * median_s)


def print_profile(bench: Bench, title: str, chunk: ScheduledChunk, parts: dict[str, tuple]) -> None:
    if isinstance(bench.module, Model):
        print_operators(bench, title, chunk, parts)
        return
    bench.module.take_seconds()
    duration_s = bench.step(**parts, chunks=(chunk,))
    print_phases(title, duration_s, bench.module.take_seconds())


def print_phases(title: str, duration_s: float, seconds: dict[str, float]) -> None:
    seconds["outside of the kernels"] = duration_s - sum(seconds.values())
    print(f"\n{title}: {1000 * duration_s:.1f} ms\n\n| phase | ms | share |\n|---|---|---|")
    for phase, phase_s in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"| {phase} | {1000 * phase_s:.2f} | {phase_s / duration_s:.0%} |")


def print_operators(
    bench: Bench, title: str, chunk: ScheduledChunk, parts: dict[str, tuple]
) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        duration_s = bench.step(**parts, chunks=(chunk,))
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total_us = sum(event.self_cpu_time_total for event in events)
    print(f"\n{title}: {1000 * duration_s:.1f} ms (under the profiler)\n")
    print("| operator | calls | ms | share |\n|---|---|---|---|")
    for event in events[:NUM_PROFILE_ROWS]:
        own_us = event.self_cpu_time_total
        print(f"| {event.key} | {event.count} | {own_us / 1000:.2f} | {own_us / total_us:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", nargs="+", default=["auto"])
    parser.add_argument("--kernels", nargs="+", type=KernelChoice, default=[KernelChoice.AUTO])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path: Path = resolve_model(options.model).path
    for dtype in options.dtype:
        for kernels in options.kernels:
            measure(path, device=options.device, dtype=dtype, kernels=kernels)


def measure(path: Path, *, device: str, dtype: str, kernels: KernelChoice) -> None:
    clock = WallClock()
    started_at = clock.now()
    model = load_model(path, device=device, dtype=dtype, kernels=kernels)
    print(f"\n{path.name}, {model.dtype} on {model.device}, kernels: {model.kernels}; ", end="")
    print(f"loaded in {clock.now() - started_at:.1f} s\n")
    bench = Bench(model)
    bench.prefill("warm-up", CHUNK_TOKENS)
    bench.forget(["warm-up"])
    print("| step | tok/s | ms a step |\n|---|---|---|")
    results = [measure_prefill(bench, num_tokens) for num_tokens in (128, 512, 2048)]
    results += [
        measure_decode(bench, batch, context)
        for batch, context in ((1, 100), (1, 4096), (8, 512), (32, 512))
    ]
    for result in results:
        print(f"| {result.what} | {result.tokens_per_s:.1f} | {result.step_ms:.1f} |", flush=True)
    parts = bench.admit("profiled", CHUNK_TOKENS + 1)
    print_profile(
        bench, "prefill step, 512 tokens", bench.chunk("profiled", 0, CHUNK_TOKENS), parts
    )
    print_profile(bench, "decode step, 1 at 512", bench.chunk("profiled", CHUNK_TOKENS, 1), {})


if __name__ == "__main__":
    main()
