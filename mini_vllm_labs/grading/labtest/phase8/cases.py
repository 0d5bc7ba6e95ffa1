"""Requests with steps in flight, and the checks that several tests of phase 8 use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from types import ModuleType
from typing import Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal, explained
from mini_vllm_labs.grading.labtest.moments import told_of_fields, told_of_memory
from mini_vllm_labs.grading.labtest.support import fields_of, make_request
from mini_vllm_labs.pictures.text import counted

RULE_OF_TAKING = (
    "A step that samples takes one placeholder for each token that it may bring: one, and one for each draft that it "
    "verifies. A step that does not sample takes none."
)
STAND_INS = (
    "A request that samples gets drafts: after such a step, spec_token_ids are num_speculative_tokens stand-ins of -1."
)
RULE_OF_FILLING = "A token that has arrived gives back one placeholder; those of steps still in flight stay."
ASKED = {  # by what differs
    "num_output_placeholders": "are all known tokens, all expected ones and the drafts of this step computed? If so, "
    "how many tokens may the step bring?",
    "spec_token_ids": "does this step sample? If it does, how many drafts may the next one verify, and what stands for "
    "each? If not, which rule changes the list?",
    "also changed": "which line of yours changes another field of the request than the task names?",
}
OWNER = "The scheduler owns the request: your method changes only what its task names."


def scheduling_of(phase8: ModuleType, num_speculative_tokens: int) -> AsyncScheduling:
    """Return your object for so many drafts; another one, for more, is made after it."""
    scheduling: AsyncScheduling = phase8.PlaceholderScheduling(num_speculative_tokens)
    phase8.PlaceholderScheduling(num_speculative_tokens + 3)  # state of the class would show
    return scheduling


def request_with(
    num_prompt: int,
    num_outputs: int = 0,
    *,
    computed: int,
    placeholders: int = 0,
    max_tokens: int = 0,
    drafts: Iterable[int] = (),
    name: str = "A",
    status: RequestStatus = RequestStatus.RUNNING,
) -> Request:
    """Return a request with these counters. `computed` counts what steps in flight will have computed, too.

    A `max_tokens` of 0 means that the end is far away.
    """
    max_tokens = max_tokens or num_outputs + 100
    request = make_request(name, num_prompt, num_output_tokens=num_outputs, max_tokens=max_tokens)
    request.status = status
    request.num_computed_tokens = computed
    request.num_output_placeholders = placeholders
    request.spec_token_ids = list(drafts)
    return request


def facts(request: Request) -> str:
    return (
        f"{request.request_id}, {request.status.name}: {counted(request.num_prompt_tokens, 'prompt token')} and "
        f"{counted(request.num_output_tokens, 'generated token')} known, "
        f"num_computed_tokens {request.num_computed_tokens}, "
        f"num_output_placeholders {request.num_output_placeholders}"
        + f", preempted {counted(request.num_preemptions, 'time')} before"
        * (request.num_preemptions > 0)
    )


def shown(drafts: object) -> object:
    """Return any sequence of drafts as a list, and anything else unchanged."""
    return list(drafts) if isinstance(drafts, Iterable) else drafts


def changed_besides(request: Request, before: Mapping[str, object], *allowed: str) -> list[str]:
    """Return the names of the fields that have changed, without those that may."""
    return [name for name, value in fields_of(request).items() if name not in allowed and value != before[name]]


def about_what_differs(yours: Mapping[str, object], expected: Mapping[str, object]) -> str:
    """Return the question about the first value that differs: whether a step samples decides the others, too."""
    return next((question for name, question in ASKED.items() if yours[name] != expected[name]), "")


def check_take(scheduling: AsyncScheduling, request: Request, num_drafts: int, num_speculative_tokens: int) -> None:
    """Call `take_placeholders` for a step that has just been planned, and compare."""
    before, situation, given = fields_of(request), facts(request), copy(request)
    places = int(request.num_output_placeholders)
    samples = request.num_computed_tokens == request.num_tokens + places + num_drafts
    lines = [
        situation,
        f"num_speculative_tokens={num_speculative_tokens}; take_placeholders({request.request_id}, {num_drafts})",
    ]
    with explained(lines, rule=RULE_OF_TAKING):
        scheduling.take_placeholders(request, num_drafts)
    yours = {
        "num_output_placeholders": request.num_output_placeholders,
        "spec_token_ids": shown(request.spec_token_ids),
        "also changed": changed_besides(request, before, "num_output_placeholders", "spec_token_ids"),
    }
    expected = {
        "num_output_placeholders": places + samples * (1 + num_drafts),
        "spec_token_ids": [-1] * num_speculative_tokens if samples else shown(before["spec_token_ids"]),
        "also changed": [],
    }
    told: Told = {
        "rule": f"{RULE_OF_TAKING} {STAND_INS}",
        "situation": lines,
        "hint": about_what_differs(yours, expected),
    }
    right = list(expected.values())[:2]
    if list(yours.values())[:2] != right:
        new: Any = type(scheduling)

        def ask(copies: Sequence[Request]) -> list[object]:
            new(num_speculative_tokens).take_placeholders(copies[0], num_drafts)
            return [copies[0].num_output_placeholders, shown(copies[0].spec_token_ids)]

        told = told_of_call(told, ask, [given], right, "spec_token_ids", "num_output_placeholders")
    expect_equal(yours, expected, **told)


def told_of_call(
    told: Told,
    ask: Callable[[Sequence[Request]], object],
    given: Sequence[Request],
    right: object,
    *keep: str,
    alone: str = "a new object, given a copy of the request",
) -> Told:
    """Return what a report says: on which field a wrong answer hangs, or that something is kept between calls."""
    told = told_of_fields(told, given, ask, right, keep)
    return told_of_memory(told, lambda: ask([copy(one) for one in given]), right, alone)


def check_fill(scheduling: AsyncScheduling, request: Request, num_tokens: int) -> None:
    """Call `fill_placeholders` for tokens that have arrived, and compare."""
    before, placeholders, given = fields_of(request), int(request.num_output_placeholders), copy(request)
    lines = [facts(request), f"fill_placeholders({request.request_id}, {num_tokens})"]
    with explained(lines, rule=RULE_OF_FILLING):
        scheduling.fill_placeholders(request, num_tokens)
    yours = {
        "num_output_placeholders": request.num_output_placeholders,
        "also changed": changed_besides(request, before, "num_output_placeholders"),
    }
    right = placeholders - num_tokens
    told: Told = {"rule": RULE_OF_FILLING, "situation": lines, "hint": ASKED["also changed"]}
    if yours["num_output_placeholders"] != right:

        def ask(copies: Sequence[Request]) -> object:
            scheduling.fill_placeholders(copies[0], num_tokens)
            return copies[0].num_output_placeholders

        told["hint"] = "how many tokens have arrived, and what does your code change for them?"
        told = told_of_fields(told, [given], ask, right, ["num_output_placeholders"])
    expect_equal(yours, {"num_output_placeholders": right, "also changed": []}, **told)
