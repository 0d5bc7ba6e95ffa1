"""Graded tests of task 7.2: rejected drafts leave the counters."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase7.counters import check_roll_back, drafted, scheduling_of
from course.labtest.support import make_request
from course.views.text import counted


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
            f"step {step}: {counted(len(given), 'draft')}, budget {budget}, you scheduled {len(drafts)} of them; "
            f"{counted(num_sampled, 'token')} sampled"
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


@pytest.mark.parametrize(
    ("num_drafts", "num_sampled", "computed"),
    [
        (4, 1, 14),  # all four were wrong
        (4, 2, 15),
        (4, 4, 17),
        (4, 5, 18),  # all were right: nothing is taken back
        (1, 1, 17),
        (1, 2, 18),
    ],
)
def test_the_rejected_drafts_are_taken_back(
    phase7: ModuleType, num_drafts: int, num_sampled: int, computed: int
) -> None:
    check_roll_back(phase7, drafted(10, 4, [], computed=18), num_drafts, num_sampled, computed=computed)


@pytest.mark.parametrize(("num_sampled", "computed", "placeholders"), [(1, 15, 2), (2, 16, 3), (3, 17, 4), (4, 18, 5)])
def test_placeholders_of_rejected_drafts_are_given_back(
    phase7: ModuleType, num_sampled: int, computed: int, placeholders: int
) -> None:
    request = drafted(10, 4, [-1, -1], computed=18, placeholders=5)
    check_roll_back(phase7, request, 3, num_sampled, computed=computed, placeholders=placeholders)


@pytest.mark.parametrize("num_sampled", [1, 2, 3, 4])
def test_a_victim_has_nothing_computed_to_take_back(phase7: ModuleType, num_sampled: int) -> None:
    victim = drafted(10, 4, [], computed=17)
    victim.preempt()
    check_roll_back(phase7, victim, 3, num_sampled, computed=0)


@pytest.mark.parametrize("num_sampled", [1, 2, 3, 4])
def test_a_victim_in_flight_still_gives_its_placeholders_back(phase7: ModuleType, num_sampled: int) -> None:
    victim = drafted(10, 4, [], computed=17, placeholders=4)
    victim.preempt()
    check_roll_back(phase7, victim, 3, num_sampled, computed=0, placeholders=num_sampled)


@pytest.mark.parametrize("seed", range(5))
def test_after_every_step_the_newest_token_alone_is_not_computed(phase7: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        answer_in_steps(phase7, rng)
