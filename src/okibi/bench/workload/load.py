"""Finds and reads sessions: a directory of `*.json`, one `.json`, or a `.jsonl`/`.jsonl.gz`.

Lines and files may be Weka traces or the compact encoding; each is recognised by its keys. Must
never skip a broken session silently: the first one ends the load with its place in the file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from okibi.bench.workload.compact import decode_compact_trace
from okibi.bench.workload.scale import scale_trace
from okibi.bench.workload.trace import Trace, TraceError, decode_trace
from okibi.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadConfig:
    """What to keep of the sessions found.

    `max_context_tokens` drops whole sessions whose largest prompt plus reply exceeds it (after
    scaling); `max_sessions` keeps the first ones that remain.
    """

    scale_tokens: float = 1.0
    max_context_tokens: int | None = None
    max_sessions: int | None = None

    def __post_init__(self) -> None:
        for flag, value in (
            ("--max-context", self.max_context_tokens),
            ("--sessions", self.max_sessions),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"{flag} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The sessions to replay, in file order, and how many were dropped for their length."""

    traces: tuple[Trace, ...]
    num_dropped: int


def load_workload(path: Path, config: LoadConfig) -> Workload:
    """Read every session under `path`.

    Raises TraceError when nothing is found, nothing is left, ids repeat or a session is broken.
    """
    kept: list[Trace] = []
    num_dropped = 0
    seen_ids: dict[str, str] = {}
    for source, data in _raw_sessions(path):
        trace = scale_trace(_decode(data, source), config.scale_tokens)
        if trace.id in seen_ids:
            raise TraceError(
                f"{source} repeats the session id {trace.id!r} of {seen_ids[trace.id]}"
            )
        seen_ids[trace.id] = source
        limit = config.max_context_tokens
        if limit is not None and trace.peak_context_tokens > limit:
            num_dropped += 1
            continue
        kept.append(trace)
        if len(kept) == config.max_sessions:
            break
    if not kept:
        raise TraceError(_nothing_left(path, num_dropped))
    return Workload(traces=tuple(kept), num_dropped=num_dropped)


def _nothing_left(path: Path, num_dropped: int) -> str:
    if num_dropped:
        return (
            f"all {num_dropped} sessions in {path} are longer than --max-context; "
            "raise it or shrink them with --scale-tokens"
        )
    return f"no sessions in {path}; `okibi bench generate {path}` writes some"


def _decode(data: bytes, source: str) -> Trace:
    if b'"hash_id_scope"' not in data and b'"q"' in data:
        return decode_compact_trace(data, source)
    return decode_trace(data, source)


def _raw_sessions(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_dir():
            for file in sorted(path.glob("*.json")):
                yield str(file), file.read_bytes()
        elif path.suffix == ".json":
            yield str(path), path.read_bytes()
        else:
            yield from _raw_lines(path)
    except FileNotFoundError:
        raise TraceError(
            f"{path} does not exist; `okibi bench generate DIR` writes traces"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"cannot read {path}: {error}") from None


def _raw_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path}:{number}", bytes(line)
