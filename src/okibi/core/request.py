"""A generation that someone asked for, as a value.

The moving parts (progress, pages) belong to `control.scheduler.state`. A request has no prefill
or decode phase: it is `num_computed_tokens` catching up with `num_tokens`.
"""

from dataclasses import dataclass

from okibi.core.ids import RequestId
from okibi.core.sampling import SamplingParams
from okibi.core.token_source import TokenSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation.

    Attributes:
        prompt: The prompt's tokens; at least one.
        sampling: How to generate.
        priority: Smaller runs first under the `priority` queue policy; ties by arrival.
        cache_salt: Requests share cached blocks only if their salts are equal.
        conversation: A hint that names the conversation this is a turn of, so that chain digests
            of the earlier turn are not computed again. Never an authorisation, never needed.
    """

    request_id: RequestId
    prompt: TokenSource
    sampling: SamplingParams
    priority: int = 0
    cache_salt: str = ""
    conversation: str = ""
