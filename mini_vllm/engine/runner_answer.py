"""Check that a runner's output matches its batch."""

from collections.abc import Sequence

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.errors import RunnerError


def require_answer(batch: Sequence[ScheduledRequest], runner_output: ModelRunnerOutput, vocab_size: int) -> None:
    """Raise `RunnerError` unless every request that needs a token got exactly one, or an error."""
    expected = {scheduled.request.request_id for scheduled in batch if scheduled.needs_token}
    answered = runner_output.sampled_token_ids.keys() | runner_output.errors.keys()
    if both := runner_output.sampled_token_ids.keys() & runner_output.errors.keys():
        raise RunnerError(f"the runner returned a token and an error for {sorted(both)}")
    if answered != expected:
        raise RunnerError(f"the runner returned tokens for {sorted(answered)}, expected {sorted(expected)}")
    for request_id, token_ids in runner_output.sampled_token_ids.items():
        if len(token_ids) != 1 or not 0 <= token_ids[0] < vocab_size:
            raise RunnerError(f"the runner returned for {request_id} the tokens {token_ids}, expected one token id")
