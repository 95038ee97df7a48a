"""A call that the engine has accepted: outputs in, text out.

Yields what each choice gains and how it ends, for streaming and for answers in one piece alike,
and adds up usage. Closing a run stops whatever is unfinished.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from okibi.core.output import FinishReason, RequestOutput
from okibi.server.doctor.diagnosis import Diagnosis
from okibi.server.engine_client import EngineLost, Generation
from okibi.server.http.call import Call
from okibi.server.http.errors import ApiError, from_rejection
from okibi.server.http.run_timer import RunTimer
from okibi.server.prompt.output_text import OutputText, TextDelta
from okibi.server.prompt.prompt_maker import PromptMaker


@dataclass(frozen=True, slots=True)
class Delta:
    """What choice `index` gained; with a finish reason its end, and nothing gained."""

    index: int
    gained: TextDelta
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of a whole call. `num_cached_tokens` of the prompts were not computed.

    `diagnosis` says what stood in the way of more, if the client asked.
    """

    num_prompt_tokens: int
    num_completion_tokens: int
    num_cached_tokens: int
    diagnosis: Diagnosis | None = None

    def as_json(self) -> dict[str, object]:
        """OpenAI's usage object; zeros are values."""
        details: dict[str, object] = {"cached_tokens": self.num_cached_tokens}
        if self.diagnosis is not None:
            details["cache_diagnostics"] = self.diagnosis.as_json()
        return {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_completion_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_completion_tokens,
            "prompt_tokens_details": details,
        }


@dataclass(slots=True)
class _Choice:
    index: int
    text: OutputText
    num_cached_tokens: int | None = None
    is_open: bool = field(default=True)


class Run:
    """Runs one call."""

    def __init__(
        self, call: Call, generation: Generation, prompts: PromptMaker, timer: RunTimer
    ) -> None:
        self._call = call
        self._generation = generation
        self._timer = timer
        self._is_accepted = False
        self._choices = {
            request.request_id: _Choice(
                index,
                OutputText(
                    prompts.token_bytes,
                    stops=call.stops,
                    min_tokens=request.sampling.min_tokens,
                    end_ids=frozenset((*call.eos_token_ids, *request.sampling.stop_token_ids)),
                ),
            )
            for index, request in enumerate(call.requests)
        }

    @property
    def call(self) -> Call:
        return self._call

    @property
    def usage(self) -> Usage:
        """The counts so far; final once `deltas` has ended."""
        choices = list(self._choices.values())
        per_prompt = len(choices) // len(self._call.prompts)
        num_cached = 0
        for first in range(0, len(choices), per_prompt):
            # A token was spared only if no choice of its prompt had to compute it.
            group = choices[first : first + per_prompt]
            num_cached += min(choice.num_cached_tokens or 0 for choice in group)
        return Usage(
            num_prompt_tokens=sum(len(prompt) for prompt in self._call.prompts),
            num_completion_tokens=sum(choice.text.num_tokens for choice in choices),
            num_cached_tokens=num_cached,
            diagnosis=self._call.diagnosis,
        )

    async def accept(self) -> None:
        """Wait for the engine's word on the call.

        Raises:
            ApiError: it was refused.
            EngineLost: there is no engine any more.
        """
        for _ in self._call.requests:
            output = await self._generation.next_output()
            if output.rejection is not None:
                raise from_rejection(output.rejection)
            if output.finish_reason is not None:
                raise _failure(output)
        self._is_accepted = True

    async def deltas(self, silence_s: float) -> AsyncIterator[Delta | None]:
        """Everything the choices gain; None whenever nothing came for `silence_s`.

        Raises:
            ApiError: a choice failed.
            EngineLost: there is no engine any more.
        """
        num_open = len(self._choices)
        while num_open:
            output = await self._next_output(silence_s)
            if output is None:
                yield None
                continue
            choice = self._choices[output.request_id]
            for delta in self._take(choice, output):
                yield delta
            num_open -= not choice.is_open

    def close(self) -> None:
        """Stop what is unfinished. Idempotent."""
        self._end_open_choices("abort")
        self._generation.close()

    def _end_open_choices(self, reason: str) -> None:
        """Count them as ended, unless the call was never accepted."""
        for choice in self._choices.values():
            if choice.is_open:
                choice.is_open = False
                if self._is_accepted:
                    self._timer.finished(reason)

    async def _next_output(self, silence_s: float) -> RequestOutput | None:
        try:
            async with asyncio.timeout(silence_s):
                return await self._generation.next_output()
        except TimeoutError:
            return None
        except EngineLost:
            self._end_open_choices("error")
            raise

    def _take(self, choice: _Choice, output: RequestOutput) -> list[Delta]:
        if output.finish_reason in (FinishReason.ABORT, FinishReason.ERROR):
            choice.is_open = False
            self._timer.finished("error")
            raise _failure(output)
        if output.num_cached_tokens is not None:
            choice.num_cached_tokens = output.num_cached_tokens
        self._timer.produced(choice.index, len(output.token_ids))
        gained = choice.text.push(
            output.token_ids,
            output.logprobs,
            is_end=output.finish_reason is FinishReason.STOP,
        )
        deltas = [Delta(choice.index, gained)] if gained else []
        if choice.text.is_stopped:
            self._generation.abort(output.request_id)
            return deltas + self._finish(choice, FinishReason.STOP)
        if output.finish_reason is not None:
            return deltas + self._finish(choice, output.finish_reason)
        return deltas

    def _finish(self, choice: _Choice, reason: FinishReason) -> list[Delta]:
        rest = choice.text.finish()
        if choice.text.is_stopped:
            reason = FinishReason.STOP
        choice.is_open = False
        self._timer.finished(reason.value)
        last = Delta(choice.index, TextDelta(), reason.value)
        return [Delta(choice.index, rest), last] if rest else [last]


def _failure(output: RequestOutput) -> ApiError:
    return ApiError(
        500, output.error or "The generation was stopped by the server.", code="generation_failed"
    )
