"""Checks a runner's output against its batch, and selects the entries of some requests."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import TypeVar

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.errors import RunnerError

Value = TypeVar("Value")


def checked_answer(
    batch: Sequence[ScheduledRequest], runner_output: ModelRunnerOutput, vocab_size: int
) -> ModelRunnerOutput:
    """Check a runner's output and return it with every token as an `int`.

    Integer types of numpy and torch are accepted, because samplers use both. A float is rejected, even a whole number,
    because it would fail later when used as an id. Raises `RunnerError` unless every request that needs a token got a
    token or an error. With drafts, a request may get more tokens: one for each accepted draft.
    """
    expected = {scheduled.request.request_id for scheduled in batch if scheduled.needs_token}
    limits = {one.request.request_id: 1 + len(one.draft_token_ids) for one in batch if one.draft_token_ids}
    answered = runner_output.sampled_token_ids.keys() | runner_output.errors.keys()
    if both := runner_output.sampled_token_ids.keys() & runner_output.errors.keys():
        raise RunnerError(f"the runner returned both a token and an error for {sorted(both)}")
    if answered != expected:
        raise RunnerError(
            f"the runner returned tokens for {sorted(answered)}, but tokens for {sorted(expected)} were expected"
        )
    checked: dict[str, list[int]] = {}
    for request_id, token_ids in runner_output.sampled_token_ids.items():
        checked[request_id] = own = [_whole(token_id) for token_id in token_ids]
        if not 1 <= len(own) <= limits.get(request_id, 1) or not all(0 <= one < vocab_size for one in own):
            expectation = f"1 to {limits[request_id]} token ids" if request_id in limits else "one token id"
            raise RunnerError(
                f"the runner returned the tokens {token_ids} for {request_id}, but it must return {expectation}, of "
                "type int"
            )
    return replace(runner_output, sampled_token_ids=checked)


def _whole(number: object) -> int:
    """Return a token as an `int`, or -1 if its type is not an integer type."""
    if type(number) is int:
        return number
    try:
        return -1 if isinstance(number, bool) else index(number)  # type: ignore[arg-type]
    except TypeError:
        return -1


def only(request_ids: Container[str], by_request: Mapping[str, Value]) -> dict[str, Value]:
    """Return the entries of these requests."""
    return {request_id: value for request_id, value in by_request.items() if request_id in request_ids}
