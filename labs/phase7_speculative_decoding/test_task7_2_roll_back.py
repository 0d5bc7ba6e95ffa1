"""Graded tests of task 7.2: rejected drafts leave the counters."""

import random
from types import ModuleType

import pytest

from mini_vllm.electives.speculation import Speculation
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.moments import varied
from mini_vllm_labs.grading.labtest.phase7.counters import COUNTERS, check_roll_back, drafted, scheduling_of
from mini_vllm_labs.grading.labtest.support import make_request
from mini_vllm_labs.pictures.text import counted


def answer_in_steps(phase7: ModuleType, rng: random.Random) -> None:
    """Generate an answer with random drafts and budgets; after each step the newest token alone is not computed."""
    scheduling = scheduling_of(phase7, 5)
    request = make_request("A", rng.randint(1, 9), num_computed_tokens=1, num_output_tokens=1)
    varied(request, rng).num_output_placeholders = 0
    request.num_computed_tokens = request.num_prompt_tokens
    told: list[str] = []
    for step in range(12):
        request.spec_token_ids = [rng.randint(0, 9) for _ in range(rng.choice([rng.randint(0, 5), 16]))]
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
        num_fit = min(len(given), budget - 1)
        expect_equal(
            {
                "drafts scheduled": len(drafts),
                "num_tokens - num_computed_tokens": request.num_tokens - int(request.num_computed_tokens),
            },
            {"drafts scheduled": num_fit, "num_tokens - num_computed_tokens": 1},
            rule="Between two steps a decoding request is one token behind, however many drafts were right.",
            situation=told,
            hint="which tokens of the last step are in the text, and which counter counts others?"
            if len(drafts) == num_fit
            else "of the computed tokens, how many are known ones, how many placeholders, and how many drafts?",
        )


class InFlight:
    """One request of an engine that plans ahead: two of its steps are in flight when the first one's results arrive."""

    def __init__(self, scheduling: Speculation, name: str, rng: random.Random) -> None:
        self.scheduling, self.random, self.told = scheduling, rng, list[str]()
        self.request = varied(drafted(rng.randint(1, 9), 0, [], computed=0, name=name), rng)
        self.request.num_computed_tokens, self.request.num_output_placeholders = self.request.num_tokens, 1
        self.request.spec_token_ids = []
        self.steps = [0]  # the number of drafts of each step in flight

    def plan(self) -> None:
        """Plan a step with some drafts, of which the budget cuts some off, and take placeholders, as phase 8 does."""
        given = [-1] * self.random.choice([*range(8), 20])
        budget = self.random.choice([1, 2, 4, 100])
        self.request.spec_token_ids = given
        self.request.num_computed_tokens += min(1 + len(given), budget)
        num_drafts = len(self.scheduling.schedule_drafts(self.request))
        self.request.num_output_placeholders += 1 + num_drafts
        self.steps.append(num_drafts)
        self.told.append(f"{self.request.request_id}: a step with {counted(num_drafts, 'draft')} is planned")

    def results_arrive(self) -> None:
        """Bring the results of the oldest step in flight."""
        num_drafts, request = self.steps.pop(0), self.request
        num_sampled = self.random.randint(1, 1 + num_drafts)
        if num_drafts:
            self.scheduling.roll_back(request, num_drafts, num_sampled)
        request.all_token_ids += range(7000, 7000 + num_sampled)
        request.num_output_placeholders -= num_sampled
        self.told.append(
            f"{request.request_id}: the results of the step before that arrive: {counted(num_drafts, 'draft')}, "
            f"{counted(num_sampled, 'sampled token')}"
        )
        num_expected = sum(1 + one for one in self.steps)
        expect_equal(
            {name: int(getattr(request, name)) for name in COUNTERS},
            {
                "num_computed_tokens": request.num_tokens + num_expected - 1,
                "num_output_placeholders": num_expected,
            },
            rule="roll_back is about the step whose results have arrived. A step that was planned since has drafts of "
            "its own, and placeholders for them.",
            situation=self.told[-8:],
            hint="how many drafts had the step whose results arrive, how many were rejected, and which counters change "
            "by that? Arguments and counters say all of it.",
        )


@pytest.mark.parametrize("seed", range(3))
def test_results_are_those_of_the_older_of_two_steps_in_flight(phase7: ModuleType, seed: int) -> None:
    rng, scheduling = random.Random(seed), scheduling_of(phase7, 20)
    requests = [InFlight(scheduling, name, rng) for name in "AB"]
    for _ in range(30):
        for one in requests:
            one.plan()
        for one in rng.sample(requests, 2):
            one.results_arrive()


@pytest.mark.parametrize(
    ("num_drafts", "num_sampled", "computed"),
    [
        (4, 1, 14),  # all four were wrong
        (4, 2, 15),
        (4, 4, 17),
        (4, 5, 18),  # all were right: nothing is taken back
        (1, 1, 17),
        (1, 2, 18),
        (12, 5, 10),
        (12, 13, 18),
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
