"""What every engine does with a runner's answer: check it against the batch, and keep the part of some requests."""

from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.errors import RunnerError

Value = TypeVar("Value")


def require_answer(batch: Sequence[ScheduledRequest], runner_output: ModelRunnerOutput, vocab_size: int) -> None:
    """Raise `RunnerError` unless every request that needs a token got one, or an error.

    With drafts it may be more tokens, one for each accepted draft. A token is an `int`: another number that equals one
    would be kept, and fail later where it is used as an id.
    """
    expected = {scheduled.request.request_id for scheduled in batch if scheduled.needs_token}
    limits = {one.request.request_id: 1 + len(one.draft_token_ids) for one in batch if one.draft_token_ids}
    answered = runner_output.sampled_token_ids.keys() | runner_output.errors.keys()
    if both := runner_output.sampled_token_ids.keys() & runner_output.errors.keys():
        raise RunnerError(f"the runner returned a token and an error for {sorted(both)}")
    if answered != expected:
        raise RunnerError(f"the runner returned tokens for {sorted(answered)}, expected {sorted(expected)}")
    for request_id, token_ids in runner_output.sampled_token_ids.items():
        are_known = all(type(token_id) is int and 0 <= token_id < vocab_size for token_id in token_ids)
        if not 1 <= len(token_ids) <= limits.get(request_id, 1) or not are_known:
            expectation = f"1 to {limits[request_id]} token ids" if request_id in limits else "one token id"
            raise RunnerError(
                f"the runner returned for {request_id} the tokens {token_ids}, expected {expectation}, of type int"
            )


def only(request_ids: Container[str], by_request: Mapping[str, Value]) -> dict[str, Value]:
    """Return the entries of these requests."""
    return {request_id: value for request_id, value in by_request.items() if request_id in request_ids}
