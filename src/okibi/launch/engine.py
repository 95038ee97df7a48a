"""The engine process: joins a replica to an executor and drives both.

Started by `okibi serve` as `python -m okibi.launch.engine`, with an `EngineSpec` on its standard
input. That input stays open as long as the parent lives: its end, however the parent died, ends
this process too. The only place where control meets execution.
"""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from okibi.control.replica import Replica
from okibi.control.stats import ReplicaStats
from okibi.core.clock import WallClock
from okibi.core.errors import ConfigError, ModelError
from okibi.core.kv_layout import KVCacheLayout
from okibi.core.output import RequestOutput
from okibi.execution.executors.local import LocalExecutor
from okibi.execution.models.loader import LoadedModel, load_model
from okibi.kvcache.layout_solver import solve_layout
from okibi.launch.engine_spec import EngineSpec, read_spec, replica_config
from okibi.server.engine_link import EngineLink
from okibi.server.engine_protocol import Failed, Loading, News, Ready
from okibi.server.live_driver import LiveDriver

_CPU_POOL_SHARE = 0.25
_CPU_POOL_MAX_BYTES = 4 << 30
_CUDA_POOL_SHARE = 0.85


def main() -> int:
    """Build the engine, serve until told to stop; the exit code says how it went."""
    # A terminal's Ctrl-C and a service manager's SIGTERM reach the whole group; the parent drains
    # and then closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spec = read_spec(sys.stdin.buffer)
    if spec is None:
        return 0
    folder = Path(spec.link_folder)
    _exit_with_parent(sys.stdin.fileno(), folder)
    link = EngineLink(folder)
    try:
        _serve(spec, link)
    except (ConfigError, ModelError) as error:
        link.send(Failed(str(error), is_config=True))
        return 2
    except Exception as error:
        link.send(Failed(f"{type(error).__name__}: {error}", is_config=False))
        raise
    finally:
        link.close()
    return 0


def _serve(spec: EngineSpec, link: EngineLink) -> None:
    clock = WallClock()
    started_at = clock.now()
    link.send(Loading(f"loading {spec.model} on {spec.device}"))
    model = load_model(Path(spec.model), device=spec.device, dtype=spec.dtype, kernels=spec.kernels)
    link.send(Loading(f"weights loaded as {model.dtype} in {clock.now() - started_at:.1f} s"))
    link.send(Loading(f"kernels: {model.kernels}"))
    layout = _make_layout(spec, model)
    eos_token_ids = tuple(sorted({*model.eos_token_ids, *spec.eos_token_ids}))
    config = replica_config(
        spec,
        model_fingerprint=model.fingerprint,
        max_model_len=_max_model_len(spec, model, layout),
        eos_token_ids=eos_token_ids,
    )
    replica = Replica(config, layout)
    executor = LocalExecutor(model, clock)
    executor.allocate(layout)
    link.send(Loading(_describe_pool(layout)))

    def emit(outputs: Sequence[RequestOutput], stats: ReplicaStats) -> None:
        link.send(News(tuple(outputs), stats))

    driver = LiveDriver(replica, executor, clock, emit)
    link.receive_into(driver.post, driver.fail)
    link.send(
        Ready(
            max_model_len=replica.max_model_len,
            prefix_match_unit=layout.prefix_match_unit,
            pool_tokens=layout.max_tokens(),
            vocab_size=model.arch.vocab_size,
            eos_token_ids=eos_token_ids,
            max_unfinished=config.max_unfinished,
            scheduling_policy=config.scheduling_policy,
            stats=replica.stats(),
        )
    )
    driver.run()


def _make_layout(spec: EngineSpec, model: LoadedModel) -> KVCacheLayout:
    return solve_layout(
        model.arch.kv_specs(model.dtype),
        block_tokens=spec.block_size,
        prefix_match_unit=spec.prefix_match_unit or spec.block_size,
        memory_bytes=spec.kv_cache_memory_bytes or _free_pool_bytes(model.device),
    )


def _max_model_len(spec: EngineSpec, model: LoadedModel, layout: KVCacheLayout) -> int:
    """What was asked for, if it can be had; else what the model was made for."""
    longest, wanted = model.arch.max_position, spec.max_model_len
    if wanted is None:
        return longest
    if wanted > longest:
        raise ConfigError(
            f"--max-model-len {wanted} exceeds the {longest} tokens that the model was made for: "
            "lower it or remove it"
        )
    if wanted > layout.max_tokens():
        raise ConfigError(
            f"--max-model-len {wanted} exceeds the {layout.max_tokens()} tokens that the KV pool "
            "holds: raise --kv-cache-memory-bytes, or lower --max-model-len or remove it"
        )
    return wanted


def _free_pool_bytes(device: torch.device) -> int:
    """A share of the free memory: most of a GPU's, a modest part of a host's."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * _CUDA_POOL_SHARE)
    return min(int(psutil.virtual_memory().available * _CPU_POOL_SHARE), _CPU_POOL_MAX_BYTES)


def _describe_pool(layout: KVCacheLayout) -> str:
    gib = layout.num_pages * layout.page_size_bytes / (1 << 30)
    return f"KV pool: {layout.max_tokens():,} tokens in {layout.num_pages:,} pages ({gib:.2f} GiB)"


def _exit_with_parent(descriptor: int, link_folder: Path) -> None:
    """End the process when the stream ends: the parent holds its other end.

    A parent that was killed leaves `link_folder` behind, so it goes too.

    Reads the bare descriptor: a thread inside a buffered stream would hold the stream's lock, and
    the interpreter takes that lock when it exits in order.
    """

    def watch() -> None:
        os.read(descriptor, 1)
        shutil.rmtree(link_folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="okibi-parent-watch", daemon=True).start()


if __name__ == "__main__":
    raise SystemExit(main())
