"""Checks of what the scheduler does with drafts: requests with drafts, and the counters laid out token by token."""

import random
from copy import copy
from types import ModuleType

from mini_vllm.core.request import Request
from mini_vllm.electives.speculation import Speculation
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal, expect_unchanged, explained
from mini_vllm_labs.grading.labtest.moments import told_of_fields, told_of_memory, varied
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.support import fields_of, make_request
from mini_vllm_labs.grading.labtest.whole_numbers import list_of
from mini_vllm_labs.pictures.text import counted

COUNTERS = ("num_computed_tokens", "num_output_placeholders")
RULE_OF_SCHEDULED = (
    "A draft was scheduled if the planned step computes it: the known tokens and placeholders come first."
)
ANEW = "a new object, given a copy of the request"
RULE_OF_ROLL_BACK = (
    "roll_back takes the rejected drafts off both counters, and only those; a counter that is 0 stays 0, whatever the "
    "other one is."
)


def scheduling_of(phase7: ModuleType, num_drafts: int = 4, *, has_kv_cache: bool = False) -> Speculation:
    """Return your scheduling; one with other settings is made after it."""
    scheduling: Speculation = phase7.SpeculativeScheduling(num_drafts, has_kv_cache)
    phase7.SpeculativeScheduling(num_drafts + 3, not has_kv_cache)  # state of the class would show
    return scheduling


def state_of(thing: object) -> dict[str, object]:
    """Return what an object itself keeps, in its dict or its slots."""
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return dict(getattr(thing, "__dict__", {})) | {name: getattr(thing, name, None) for name in slots}


def drafted(
    num_prompt: int, num_outputs: int, drafts: list[int], *, computed: int, placeholders: int = 0, name: str = "A"
) -> Request:
    """Return a running request with drafts. `computed` counts the tokens of the planned step, too."""
    request = make_request(name, num_prompt, num_output_tokens=num_outputs, num_computed_tokens=max(1, computed))
    request.num_computed_tokens = computed  # at first at least 1, which makes it RUNNING
    request.num_output_placeholders = placeholders
    request.spec_token_ids = drafts
    return request


def check_schedule_drafts(
    phase7: ModuleType, request: Request, expected: list[int] | Answers, scheduling: Speculation | None = None
) -> None:
    """Call `schedule_drafts`, of a scheduling in use or a new one; compare its drafts and the state it leaves."""
    given, before, asked = list(request.spec_token_ids), fields_of(request), copy(request)
    owned, asked.spec_token_ids = request.spec_token_ids, list(given)
    situation = (
        f"{counted(request.num_tokens, 'token')} known, {counted(request.num_output_placeholders, 'placeholder')}, "
        f"drafts {given}; the step is planned: num_computed_tokens={request.num_computed_tokens}"
    )
    with explained([situation], rule=RULE_OF_SCHEDULED):
        answer = (scheduling or scheduling_of(phase7)).schedule_drafts(request)
    yours = list_of(answer, "schedule_drafts")
    right = expected if isinstance(expected, list) else expected(yours)
    told: Told = {
        "rule": RULE_OF_SCHEDULED,
        "situation": situation,
        "hint": "how many of the computed tokens are neither known nor placeholders, and which drafts are those?",
    }
    if yours != right:
        keep = ("spec_token_ids", "num_output_placeholders")
        told = told_of_fields(told, [asked], lambda one: scheduling_of(phase7).schedule_drafts(*one), right, keep)
        told = told_of_memory(told, lambda: scheduling_of(phase7).schedule_drafts(copy(asked)), right, ANEW)
    expect_equal(yours, right, **told)
    expect_equal(
        {"request.spec_token_ids": list(request.spec_token_ids)},
        {"request.spec_token_ids": []},
        rule="schedule_drafts takes the drafts away, scheduled or not: each is tried once, after the text it was made "
        "for.",
        situation=situation,
        hint="what does `request.spec_token_ids` hold when the next step is planned?",
    )
    expect_equal(
        {"the list that `request.spec_token_ids` was": owned},
        {"the list that `request.spec_token_ids` was": given},
        rule="The list of drafts also stands in the step's record: the request gets a new empty list.",
        situation=situation,
        hint="which of your operations changes the list in place (clear, pop, del)?",
    )
    expect_others_unchanged(request, before, ("spec_token_ids",), "schedule_drafts", situation)


def check_roll_back(
    phase7: ModuleType, request: Request, num_drafts: int, num_sampled: int, *, computed: int, placeholders: int = 0
) -> None:
    """Call `roll_back`; compare the counters with those expected."""
    before = fields_of(request)
    case = (request.num_computed_tokens, request.num_output_placeholders, num_drafts, num_sampled)
    situation = (
        f"{request.status.name} request, num_computed_tokens={case[0]}, num_output_placeholders={case[1]}\n"
        f"roll_back(request, {num_drafts}, {num_sampled}): {counted(num_drafts, 'draft')}, "
        f"{counted(num_sampled, 'sampled token')}; right: {counted(num_sampled - 1, 'draft')}"
    )
    with explained(situation.splitlines(), rule=RULE_OF_ROLL_BACK):
        scheduling_of(phase7).roll_back(request, num_drafts, num_sampled)
    yours = int(request.num_computed_tokens), int(request.num_output_placeholders)  # numpy's integers are as good
    right = computed, placeholders
    wrong = [f"`{name}`" for name, mine, one in zip(COUNTERS, yours, right, strict=True) if mine != one]
    expect_equal(
        dict(zip(COUNTERS, yours, strict=True)),
        dict(zip(COUNTERS, right, strict=True)),
        rule=RULE_OF_ROLL_BACK,
        situation=situation,
        hint=f"how many of the drafts were rejected, and what does your code ask before it changes "
        f"{' and '.join(wrong)}?",
    )
    expect_others_unchanged(request, before, COUNTERS, "roll_back", situation)


def expect_others_unchanged(
    request: Request, before: dict[str, object], changing: tuple[str, ...], method: str, situation: str
) -> None:
    """Fail if a field outside `changing` has changed."""
    expect_unchanged(
        fields_of(request),
        {name: value for name, value in before.items() if name not in changing},
        rule=f"{method} changes {' and '.join(f'`{name}`' for name in changing)} of the request, and nothing else.",
        situation=situation,
        hint="which line of yours assigns to another field?",
    )


def random_drafted(rng: random.Random) -> Request:
    """Return a request whose step is planned: with all its drafts, some, or none; one in four has placeholders."""
    num_prompt, num_outputs = (
        rng.choice([rng.randint(1, 20), rng.randint(1, 20), 3000]),
        rng.choice([rng.randint(0, 9), 90]),
    )
    drafts = [rng.choice([-1, 0, rng.randint(1, 99), 151_643]) for _ in range(rng.choice([rng.randint(0, 6), 19]))]
    placeholders = rng.choice([0, 0, 0, rng.randint(1, 5)])
    known = num_prompt + num_outputs + placeholders
    computed = rng.choice([known + len(drafts), known + rng.randint(0, len(drafts)), rng.randint(1, known)])
    request = drafted(
        num_prompt, num_outputs, drafts, computed=computed, placeholders=placeholders, name=rng.choice("AAB")
    )
    return varied(request, rng, keep=("spec_token_ids", "num_output_placeholders"))
