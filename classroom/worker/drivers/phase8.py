"""What is done with phase 8's functions outside of an engine. Requests come as plain numbers, as for phase 7."""

from typing import Any

from classroom.worker.drivers.attempt import Result
from classroom.worker.drivers.phase7 import request_of, state_of
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.sampling_params import SamplingParams


def placeholders(file: Any, cases: list[tuple[int, int, list[tuple[str, int, int]]]]) -> Result:
    """Take and fill placeholders of requests with a prompt, in given orders; return the state after each operation.

    Requests of one name follow each other on the same object, and all objects are made first.
    """
    schedulings = {most: file.PlaceholderScheduling(most) for _, most, _ in cases}
    answers = Result()
    for num_prompt, most, operations in cases:
        request, states = request_of(num_prompt, 0, 0, 0, [], RequestStatus.RUNNING), []
        for operation in operations:
            apply_operation(schedulings[most], request, *operation)
            states.append(state_of(request))
        answers.append(states)
    return answers


def apply_operation(scheduling: Any, request: Request, operation: str, number: int, num_drafts: int) -> None:
    """Do what the scheduler does around phase 8; of `arrive`, `num_drafts` are those that were rejected."""
    if operation == "plan":  # the counter has advanced and the drafts were taken before phase 8 is asked
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens += number
        request.spec_token_ids = []
        scheduling.take_placeholders(request, num_drafts)
    elif operation == "preempt":
        request.preempt()
    else:
        request.num_computed_tokens -= num_drafts if request.num_computed_tokens else 0
        request.num_output_placeholders -= num_drafts
        request.all_token_ids.extend([9] * number)
        scheduling.fill_placeholders(request, number)


def last_steps(file: Any, cases: list[tuple[list[Any], int, int]]) -> Result:
    """Return whether each request is surely over, and its state, which may not change."""
    answers = Result()
    for state, max_tokens, most in cases:
        request = request_of(*state)
        request.sampling_params = SamplingParams(max_tokens=max_tokens)
        answers.append([bool(file.PlaceholderScheduling(most).is_surely_over(request)), state_of(request)])
    return answers


def own_stand_ins(file: Any, cases: list[int]) -> Result:
    """Return a request's stand-ins after those of another one were changed."""
    answers = Result()
    for most in cases:
        scheduling, requests = file.PlaceholderScheduling(most), [Request(name, [1]) for name in "AB"]
        for request in requests:
            request.num_computed_tokens = 1
            scheduling.take_placeholders(request, 0)
        if isinstance(requests[0].spec_token_ids, list):
            requests[0].spec_token_ids.append(5)
        answers.append(list(requests[1].spec_token_ids))
    return answers


def correct_share(file: Any, cases: list[tuple[int, int, int, int, list[int], bool]]) -> Result:
    """Return each corrected share; the planned one, the request and the drafts, which may not change."""
    answers = Result()
    for computed, num_scheduled, num_stand_ins, num_rejected, drafts, samples in cases:
        request = request_of(5, 2, computed + num_scheduled, 3, [-1], RequestStatus.RUNNING)
        planned = ScheduledRequest(request, computed, num_scheduled, [3, 1], samples, [-1] * num_stand_ins)
        corrected = file.correct_share(planned, num_rejected, drafts)
        kept = [share_of(planned), drafts, state_of(request), corrected.request is request]
        answers.append([share_of(corrected), *kept])
    return answers


def share_of(share: ScheduledRequest) -> list[Any]:
    """Return a share as plain values."""
    numbers = [int(share.num_computed_tokens), int(share.num_scheduled_tokens)]
    return [*numbers, list(share.block_ids), bool(share.needs_token), [int(token) for token in share.draft_token_ids]]
