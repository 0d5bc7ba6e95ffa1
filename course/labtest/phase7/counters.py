"""Checks of what the scheduler does with drafts: requests with drafts, and the counters laid out token by token."""

import random
from copy import copy
from types import ModuleType

from course.labtest.expect import expect_equal
from course.labtest.phase6.whole_numbers import whole_numbers
from course.labtest.phase7.counter_symptoms import (
    HINT_OF_ROLL_BACK,
    HINT_OF_SCHEDULED,
    RULE_OF_ROLL_BACK,
    RULE_OF_SCHEDULED,
    counter_mistakes,
    scheduling_mistakes,
)
from course.labtest.phase7.identify import identified
from course.labtest.support import fields_of, make_request
from mini_vllm.core.request import Request
from mini_vllm.seams.electives import Speculation

COUNTERS = ("num_computed_tokens", "num_output_placeholders")


def scheduling_of(phase7: ModuleType, num_drafts: int = 4, *, has_kv_cache: bool = False) -> Speculation:
    """Return your scheduling; one with other settings is made after it."""
    scheduling: Speculation = phase7.SpeculativeScheduling(num_drafts, has_kv_cache)
    phase7.SpeculativeScheduling(num_drafts + 3, not has_kv_cache)
    return scheduling


def drafted(
    num_prompt: int, num_outputs: int, drafts: list[int], *, computed: int, placeholders: int = 0, name: str = "A"
) -> Request:
    """Return a running request with drafts. `computed` counts the tokens of the planned step, too."""
    request = make_request(name, num_prompt, num_output_tokens=num_outputs, num_computed_tokens=max(1, computed))
    request.num_computed_tokens = computed
    request.num_output_placeholders = placeholders
    request.spec_token_ids = drafts
    return request


def naive_scheduled(request: Request) -> list[int]:
    """Lay the tokens out in a row, known ones, placeholders, drafts; return the drafts among the computed ones."""
    row: list[int | None] = [None] * (request.num_tokens + request.num_output_placeholders)
    row += request.spec_token_ids
    return [token for token in row[: request.num_computed_tokens] if token is not None]


def copy_of(request: Request) -> Request:
    """Return a request whose drafts are a list of its own."""
    other = copy(request)
    other.spec_token_ids = list(request.spec_token_ids)
    return other


def asked(phase7: ModuleType, request: Request) -> list[int]:
    """Return the drafts that your `schedule_drafts` returns for a copy of a request."""
    return whole_numbers(scheduling_of(phase7).schedule_drafts(copy_of(request)), "schedule_drafts")


def check_schedule_drafts(phase7: ModuleType, request: Request, expected: list[int] | None = None) -> None:
    """Call `schedule_drafts`; compare the drafts that it returns and what it leaves behind."""
    should = naive_scheduled(request)
    assert expected is None or expected == should, "the test's own numbers"
    given, before, failing = list(request.spec_token_ids), fields_of(request), copy_of(request)
    owned = request.spec_token_ids
    situation = (
        f"{request.num_tokens} tokens known, {request.num_output_placeholders} placeholders, drafts {given}; "
        f"the step is planned: num_computed_tokens={request.num_computed_tokens}"
    )
    yours = whole_numbers(scheduling_of(phase7).schedule_drafts(request), "schedule_drafts")
    rule, hint = RULE_OF_SCHEDULED, HINT_OF_SCHEDULED
    if yours != should:
        rng = random.Random(1)
        others = [random_drafted(rng) for _ in range(200)]
        rule, hint = identified(failing, others, lambda one: asked(phase7, one), scheduling_mistakes) or (rule, hint)
    expect_equal(yours, should, rule=rule, situation=situation, hint=hint)
    expect_equal(
        {"request.spec_token_ids": list(request.spec_token_ids)},
        {"request.spec_token_ids": []},
        rule="schedule_drafts takes the drafts away, scheduled or not: each is tried once, behind the text it was made "
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
    situation = (
        f"{request.status.name} request, num_computed_tokens={request.num_computed_tokens}, "
        f"num_output_placeholders={request.num_output_placeholders}\n"
        f"roll_back(request, {num_drafts}, {num_sampled}): {num_drafts} drafts, {num_sampled} sampled tokens, "
        f"so {num_sampled - 1} drafts were right"
    )
    scheduling_of(phase7).roll_back(request, num_drafts, num_sampled)
    yours = tuple(int(getattr(request, name)) for name in COUNTERS)
    rule, hint = RULE_OF_ROLL_BACK, HINT_OF_ROLL_BACK
    if yours != (computed, placeholders):

        def ask(case: tuple[int, int, int, int]) -> tuple[int, ...]:
            other = drafted(3, 1, [], computed=case[0], placeholders=case[1])
            scheduling_of(phase7).roll_back(other, case[2], case[3])
            return tuple(int(getattr(other, name)) for name in COUNTERS)

        failing = (int(str(before[COUNTERS[0]])), int(str(before[COUNTERS[1]])), num_drafts, num_sampled)
        others = [(*counts, 5, sampled) for counts in ((30, 0), (30, 9), (0, 0), (0, 9)) for sampled in range(1, 7)]
        rule, hint = identified(failing, others, ask, lambda case: counter_mistakes(*case)) or (rule, hint)
    expect_equal(
        dict(zip(COUNTERS, yours, strict=True)),
        {"num_computed_tokens": computed, "num_output_placeholders": placeholders},
        rule=rule,
        situation=situation,
        hint=hint,
    )
    expect_others_unchanged(request, before, COUNTERS, "roll_back", situation)


def expect_others_unchanged(
    request: Request, before: dict[str, object], changing: tuple[str, ...], method: str, situation: str
) -> None:
    """Continue if nothing but the fields in `changing` is different."""
    after = fields_of(request)
    changed = {name: value for name, value in before.items() if after[name] != value and name not in changing}
    expect_equal(
        {name: after[name] for name in changed},
        changed,
        rule=f"{method} changes {' and '.join(f'`{name}`' for name in changing)} of the request, and nothing else.",
        situation=situation,
        hint="which line of yours assigns to another field?",
    )


def random_drafted(rng: random.Random) -> Request:
    """Return a request whose step is planned: with all its drafts, some, or none; one in four has placeholders."""
    num_prompt, num_outputs = rng.randint(1, 20), rng.randint(0, 9)
    drafts = [rng.choice([-1, 0, rng.randint(1, 99)]) for _ in range(rng.randint(0, 6))]
    placeholders = rng.choice([0, 0, 0, rng.randint(1, 5)])
    known = num_prompt + num_outputs + placeholders
    computed = rng.choice([known + len(drafts), known + rng.randint(0, len(drafts)), rng.randint(1, known)])
    return drafted(num_prompt, num_outputs, drafts, computed=computed, placeholders=placeholders)


def answer_in_steps(phase7: ModuleType, rng: random.Random) -> None:
    """Generate an answer with random drafts and budgets; after each step the newest token alone is not computed."""
    scheduling = scheduling_of(phase7, 5)
    request = make_request("A", rng.randint(1, 9), num_computed_tokens=1, num_output_tokens=1)
    request.num_computed_tokens = request.num_prompt_tokens
    told: list[str] = []
    for step in range(12):
        request.spec_token_ids = [rng.randint(0, 9) for _ in range(rng.randint(0, 5))]
        given = list(request.spec_token_ids)
        budget = rng.choice([1, 2, 3, 100])
        request.num_computed_tokens += min(1 + len(given), budget)
        drafts = list(scheduling.schedule_drafts(request))
        num_sampled = rng.randint(1, 1 + min(len(given), budget - 1))
        if drafts:
            scheduling.roll_back(request, len(drafts), num_sampled)
        request.all_token_ids += range(7000, 7000 + num_sampled)
        told.append(
            f"step {step}: {len(given)} drafts, budget {budget}, you scheduled {len(drafts)} of them; {num_sampled} "
            "tokens sampled"
        )
        expect_equal(
            {
                "drafts scheduled": len(drafts),
                "num_tokens - num_computed_tokens": request.num_tokens - int(request.num_computed_tokens),
            },
            {"drafts scheduled": min(len(given), budget - 1), "num_tokens - num_computed_tokens": 1},
            rule="Between two steps a decoding request is one token behind, however many drafts were right.",
            situation=told,
            hint="which tokens of the last step are in the text, and which counter still counts others?",
        )
