"""Requests for the graded tests. Nothing here is to be filled in."""

from collections.abc import Sequence
from copy import copy

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.sampling_params import SamplingParams


def make_request(
    request_id: str,
    num_prompt_tokens: int,
    *,
    num_computed_tokens: int = 0,
    num_output_tokens: int = 0,
    max_tokens: int = 100,
    priority: int = 0,
    arrival_time: float = 0.0,
    token_ids: Sequence[int] | None = None,
) -> Request:
    """Return a request; one with computed tokens is RUNNING, any other WAITING."""
    prompt = list(token_ids) if token_ids is not None else list(range(1000, 1000 + num_prompt_tokens))
    request = Request(
        request_id, prompt, SamplingParams(max_tokens=max_tokens), priority=priority, arrival_time=arrival_time
    )
    request.all_token_ids += range(5000, 5000 + num_output_tokens)
    request.num_computed_tokens = num_computed_tokens
    if num_computed_tokens:
        request.status = RequestStatus.RUNNING
    return request


def fields_of(request: Request) -> dict[str, object]:
    """Return a copy of everything a request consists of, by name."""
    return {name: copy(getattr(request, name)) for name in Request.__slots__}  # lists would change with it
