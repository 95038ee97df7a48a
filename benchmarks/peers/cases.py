"""What is measured: the cases of a full and of a quick run, in the order a server sees them.

Values only. A case's name is its identity in records, so a case whose meaning changes needs a new
name. Prompts are random token ids except in a replay, which sends chats.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from okibi.core.errors import ConfigError


class Stage(StrEnum):
    """What a server is used for: one stream, many streams, or agents."""

    SINGLE = "single"
    STREAMS = "streams"
    REPLAY = "replay"


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefillCase:
    """A prompt the server has never seen, up to its first token."""

    num_tokens: int
    repeats: int

    @property
    def name(self) -> str:
        return f"prefill/{self.num_tokens}"

    @property
    def stage(self) -> Stage:
        return Stage.SINGLE


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeCase:
    """One stream after a prompt of `context` tokens; its repeats may find the prompt cached."""

    context: int
    num_output: int
    repeats: int

    @property
    def name(self) -> str:
        return f"decode/{self.context}"

    @property
    def stage(self) -> Stage:
        return Stage.SINGLE


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamsCase:
    """`num_streams` requests at once, each with a prompt of its own of `context` tokens."""

    num_streams: int
    context: int
    num_output: int
    repeats: int

    @property
    def name(self) -> str:
        return f"streams/{self.num_streams}"

    @property
    def stage(self) -> Stage:
        return Stage.STREAMS


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayCase:
    """Agent sessions with forks, `concurrency` at a time, tools that answer at once.

    A replay still running after `limit_s` is stopped; how long it would have taken is not known.
    """

    concurrency: int
    num_sessions: int
    num_turns: int
    limit_s: float

    @property
    def name(self) -> str:
        return f"replay/{self.concurrency}"

    @property
    def stage(self) -> Stage:
        return Stage.REPLAY


Case = PrefillCase | DecodeCase | StreamsCase | ReplayCase

SLOT_CONTEXT = 8192
"""Tokens that a request may have, prompt and reply, before the replay."""

STREAM_CONTEXT, STREAM_OUTPUT = 100, 96

FULL: tuple[Case, ...] = (
    PrefillCase(num_tokens=512, repeats=5),
    PrefillCase(num_tokens=2048, repeats=3),
    PrefillCase(num_tokens=7900, repeats=2),
    DecodeCase(context=100, num_output=64, repeats=5),
    DecodeCase(context=4096, num_output=64, repeats=3),
    DecodeCase(context=7000, num_output=64, repeats=3),
    StreamsCase(num_streams=8, context=STREAM_CONTEXT, num_output=STREAM_OUTPUT, repeats=3),
    StreamsCase(num_streams=32, context=STREAM_CONTEXT, num_output=STREAM_OUTPUT, repeats=3),
    ReplayCase(concurrency=4, num_sessions=16, num_turns=8, limit_s=600.0),
    ReplayCase(concurrency=16, num_sessions=16, num_turns=8, limit_s=600.0),
)

QUICK: tuple[Case, ...] = (
    PrefillCase(num_tokens=512, repeats=3),
    PrefillCase(num_tokens=2048, repeats=2),
    DecodeCase(context=100, num_output=48, repeats=3),
    DecodeCase(context=4096, num_output=48, repeats=2),
    StreamsCase(num_streams=8, context=STREAM_CONTEXT, num_output=STREAM_OUTPUT, repeats=2),
    ReplayCase(concurrency=4, num_sessions=4, num_turns=4, limit_s=240.0),
)


def select_cases(cases: tuple[Case, ...], words: str | None) -> tuple[Case, ...]:
    """Cases named by a list such as `prefill,decode/100`; all for None.

    Raises ConfigError for a word that names none.
    """
    if words is None:
        return cases
    chosen: set[str] = set()
    for word in (word.strip() for word in words.split(",")):
        named = [case.name for case in cases if word in (case.name, case.name.partition("/")[0])]
        if not named:
            names = ", ".join(case.name for case in cases)
            raise ConfigError(f"--cases {word!r} names none of {names}")
        chosen.update(named)
    return tuple(case for case in cases if case.name in chosen)
