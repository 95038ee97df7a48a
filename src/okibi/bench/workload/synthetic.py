"""Synthetic agent sessions in the Weka format, sized by options and fixed by a seed.

A session starts with a tools and system prefix and a user task, then appends replies and tool
results turn by turn; now and then it forks workers that share its early context, spawns a
subagent with a fresh context, or ends its turn and waits for the person. Session i depends on the
seed and i alone, so asking for more sessions keeps the earlier ones. Defaults fit a model with a
context of 8,192 tokens.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from okibi.bench.workload.trace import BLOCK_TOKENS, StreamingCall, Subagent, Trace
from okibi.core.errors import ConfigError

_PREFILL_TOKENS_PER_S = 4000.0
_DECODE_S = 0.02
_SPREAD = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticConfig:
    """Sizes are medians of log-normal draws, clipped to [1/4, 4] of the median.

    Prefix sizes are multiples of 64. A session ends before a prompt plus reply would exceed
    `max_context_tokens`; the chat template, about 5 to 15 tokens a message, comes on top.
    `shared_system` lets the sessions of one seed send the same prefix text.
    """

    num_sessions: int = 6
    seed: int = 0
    num_turns: int = 8
    tool_tokens: int = 384
    system_tokens: int = 128
    task_tokens: int = 120
    tool_result_tokens: int = 180
    output_tokens: int = 32
    tool_gap_s: float = 0.4
    think_gap_s: float = 2.0
    end_turn_probability: float = 0.15
    fork_probability: float = 0.1
    subagent_probability: float = 0.1
    max_context_tokens: int = 7168
    shared_system: bool = True

    @property
    def prefix_tokens(self) -> int:
        """Tools plus system."""
        return self.tool_tokens + self.system_tokens


def check_config(config: SyntheticConfig) -> None:
    """Raise ConfigError, naming the flag, for values that cannot make a replayable session."""
    if config.num_sessions < 1 or config.num_turns < 2:
        raise ConfigError("--sessions must be at least 1 and --turns at least 2")
    if config.tool_tokens % BLOCK_TOKENS or config.system_tokens % BLOCK_TOKENS:
        raise ConfigError(f"--tool-tokens and --system-tokens must be multiples of {BLOCK_TOKENS}")
    for flag, chance in (
        ("--end-turn-probability", config.end_turn_probability),
        ("--fork-probability", config.fork_probability),
        ("--subagent-probability", config.subagent_probability),
    ):
        if not 0.0 <= chance <= 1.0:
            raise ConfigError(f"{flag} must be between 0 and 1")
    if config.subagent_probability + config.fork_probability > 1.0:
        raise ConfigError("--subagent-probability and --fork-probability must not sum above 1")
    sizes = (config.task_tokens, config.tool_result_tokens, config.output_tokens)
    if min(sizes) < 1 or config.prefix_tokens < 0:
        raise ConfigError("token options must be positive")
    if not (config.tool_gap_s >= 0 and config.think_gap_s >= 0):
        raise ConfigError("gaps must not be negative")
    needed = config.prefix_tokens + 4 * (config.task_tokens + 2 * config.output_tokens)
    needed += 4 * config.tool_result_tokens
    if config.max_context_tokens < needed:
        raise ConfigError(
            f"--max-context {config.max_context_tokens} leaves no room for two turns; with these "
            f"sizes it must be at least {needed}"
        )


def generate_trace(config: SyntheticConfig, index: int) -> Trace:
    """Session number `index`. Raises ConfigError for impossible options."""
    check_config(config)
    return _SessionWriter(config, random.Random(f"okibi:{config.seed}:{index}")).write(index)


@dataclass(slots=True)
class _Context:
    """A conversation's prompt so far: whole blocks with ids, and tokens past the last one."""

    ids: list[int]
    num_tail_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.ids) * BLOCK_TOKENS + self.num_tail_tokens


class _SessionWriter:
    """Writes one session; every size, time and choice comes from its own random stream."""

    def __init__(self, config: SyntheticConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._next_id = 1
        self._requests: list[StreamingCall | Subagent] = []
        self._now = 0.0
        self._num_agents = 0

    def write(self, index: int) -> Trace:
        config = self._config
        prefix = self._grow(_Context([]), config.prefix_tokens)
        main = self._grow(prefix, self._draw(config.task_tokens))
        num_turns = max(2, self._draw(config.num_turns))
        input_type, cached = "text", 0
        for turn in range(num_turns):
            reply = self._draw(config.output_tokens)
            result = self._draw(config.tool_result_tokens)
            grown = main.num_tokens + reply + result
            is_last = turn == num_turns - 1 or grown > self._room
            ends_turn = is_last or self._chance(config.end_turn_probability)
            stop = "end_turn" if ends_turn else "tool_use"
            call = self._call(main, reply, self._now, cached, input_type, stop)
            self._requests.append(call)
            self._now = call.end_t
            if is_last:
                break
            if not ends_turn:
                self._branch(prefix, main)
            gap = config.think_gap_s if ends_turn else config.tool_gap_s
            self._now += self._gap(gap)
            cached = main.num_tokens
            main = self._grow(main, reply + result)
            input_type = "text" if ends_turn else "tool_result"
        return self._trace(index)

    @property
    def _room(self) -> int:
        """Largest prompt for which any reply still fits."""
        return self._config.max_context_tokens - 4 * self._config.output_tokens

    def _trace(self, index: int) -> Trace:
        config = self._config
        totals: dict[str, object] = {"generator": "okibi", "seed": config.seed}
        if config.shared_system:
            totals["system_scope"] = f"okibi-system-{config.seed}"
        return Trace(
            id=f"synthetic-{config.seed}-{index:04d}",
            models=["synthetic"],
            block_size=BLOCK_TOKENS,
            hash_id_scope="local",
            requests=list(self._requests),
            tool_tokens=config.tool_tokens,
            system_tokens=config.system_tokens,
            totals=totals,
        )

    def _branch(self, prefix: _Context, main: _Context) -> None:
        """Maybe fork workers or spawn a subagent; the parent's next turn is after their end."""
        roll = self._rng.random()
        if roll < self._config.subagent_probability:
            self._spawn_subagent(prefix)
        elif roll < self._config.subagent_probability + self._config.fork_probability:
            self._fork_workers(main)

    def _spawn_subagent(self, prefix: _Context) -> None:
        start_t = self._now + 0.05
        self._num_agents += 1
        context = self._grow(prefix, self._draw(self._config.task_tokens))
        calls, end_t = self._run_child(context, start_t, cached=prefix.num_tokens)
        subagent = Subagent(
            t=_ms(start_t),
            agent_id=f"agent_{self._num_agents:03d}",
            subagent_type="Explore",
            status="completed",
            requests=list(calls),
            models=["synthetic"],
            duration_ms=round((end_t - start_t) * 1000),
            total_tokens=sum(call.num_input_tokens + call.num_output_tokens for call in calls),
            tool_use_count=len(calls) - 1,
            tool_tokens=self._config.tool_tokens,
            system_tokens=self._config.system_tokens,
        )
        self._requests.append(subagent)
        self._now = max(end_t, subagent.end_t)

    def _fork_workers(self, main: _Context) -> None:
        """Two to four workers that run side by side on a proper prefix of the main prompt.

        A whole prompt would look like the main agent itself, so one block is left out.
        """
        cut = len(main.ids) - 1
        if cut * BLOCK_TOKENS < max(BLOCK_TOKENS, self._config.prefix_tokens):
            return
        end_t = self._now
        calls: list[StreamingCall] = []
        for worker in range(self._rng.randint(2, 4)):
            own = self._draw(self._config.task_tokens) + BLOCK_TOKENS
            context = self._grow(_Context(main.ids[:cut]), own)
            if context.num_tokens > self._room:
                continue
            start_t = self._now + 0.01 * (worker + 1)
            found, child_end = self._run_child(context, start_t, cached=cut * BLOCK_TOKENS)
            calls.extend(found)
            end_t = max(end_t, child_end)
        self._requests.extend(sorted(calls, key=lambda call: call.t))
        self._now = end_t

    def _run_child(
        self, context: _Context, start_t: float, cached: int
    ) -> tuple[list[StreamingCall], float]:
        """A child's calls from `start_t` (seconds), and its end."""
        calls: list[StreamingCall] = []
        now = start_t
        num_turns = self._rng.randint(1, 4)
        for turn in range(num_turns):
            reply = self._draw(self._config.output_tokens)
            result = self._draw(self._config.tool_result_tokens)
            is_last = turn == num_turns - 1 or context.num_tokens + reply + result > self._room
            kind = "tool_result" if turn else "text"
            call = self._call(
                context, reply, now, cached, kind, "end_turn" if is_last else "tool_use"
            )
            calls.append(call)
            now = call.end_t
            if is_last:
                break
            cached = context.num_tokens
            context = self._grow(context, reply + result)
            now += self._gap(self._config.tool_gap_s)
        return calls, now

    def _call(
        self, context: _Context, reply: int, t: float, cached: int, input_type: str, stop: str
    ) -> StreamingCall:
        ttft = 0.05 + max(0, context.num_tokens - cached) / _PREFILL_TOKENS_PER_S
        return StreamingCall(
            t=_ms(t),
            model="synthetic",
            num_input_tokens=context.num_tokens,
            num_output_tokens=reply,
            hash_ids=list(context.ids),
            input_types=[input_type],
            output_types=["tool_use" if stop == "tool_use" else "text"],
            stop=stop,
            api_time=_ms(ttft + reply * _DECODE_S),
            ttft=_ms(ttft),
        )

    def _grow(self, context: _Context, num_tokens: int) -> _Context:
        """`context` with tokens appended; the new whole blocks get new ids."""
        total = context.num_tokens + num_tokens
        num_new = total // BLOCK_TOKENS - len(context.ids)
        ids = [*context.ids, *range(self._next_id, self._next_id + num_new)]
        self._next_id += num_new
        return _Context(ids, total % BLOCK_TOKENS)

    def _draw(self, median: int) -> int:
        factor = min(4.0, max(0.25, self._rng.lognormvariate(0.0, _SPREAD)))
        return max(1, round(median * factor))

    def _gap(self, median_s: float) -> float:
        return median_s * min(4.0, max(0.25, self._rng.lognormvariate(0.0, _SPREAD)))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability


def _ms(seconds: float) -> float:
    """Whole milliseconds, so that written times read back exactly."""
    return round(seconds, 3)
