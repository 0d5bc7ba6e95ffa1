"""Steps of some requests, planned with your methods. Nothing here is to be filled in.

`core/tokens_ahead.py` is the engine's own; `Pipeline` is the same for one request without memory.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from course.labtest.expect import Told, expect_equal, explained
from course.labtest.moments import varied
from course.labtest.phase8.cases import request_with, shown
from course.labtest.recorded import Answers
from course.views.text import counted
from mini_vllm.core.electives import AsyncScheduling
from mini_vllm.core.request import Request, RequestStatus

RULE_OF_PLANS = (
    "A step computes what is known or expected and not computed yet, and drafts; nothing if the step in flight is "
    "sure to reach max_tokens."
)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that is being computed: its drafts, and whether it samples."""

    num_drafts: int
    samples: bool


class Pipeline:
    """One request between scheduler and runner, planned and updated by the counters that your methods keep."""

    def __init__(self, scheduling: AsyncScheduling, request: Request) -> None:
        self.scheduling = scheduling
        self.request = request
        self.in_flight: deque[InFlight] = deque()
        self.next_token = 0  # the first token that is sampled has id 0

    def plan(self, budget: int) -> tuple[int, int]:
        """Plan a step; return (tokens, drafts among them)."""
        request = self.request
        num_wanted = request.num_tokens + request.num_tokens_ahead - request.num_computed_tokens
        if request.status is not RequestStatus.RUNNING:
            num_wanted = request.num_tokens
        elif self.scheduling.is_surely_over(request):
            num_wanted = 0
        num_new = max(0, min(num_wanted, budget))
        if num_new == 0:
            self.in_flight.append(InFlight(0, samples=False))
            return 0, 0
        if request.status is not RequestStatus.RUNNING:
            request.admit(0)
        request.advance(num_new)
        num_known = request.num_tokens + request.num_output_placeholders
        num_drafts = max(0, request.num_computed_tokens - num_known)
        if request.spec_token_ids:
            request.spec_token_ids = []
        self.scheduling.take_placeholders(request, num_drafts)
        self.in_flight.append(InFlight(num_drafts, request.num_computed_tokens == num_known + num_drafts))
        return num_new, num_drafts

    def update(self, num_accepted: int) -> int:
        """Bring the results of the oldest step in flight; return how many tokens they are."""
        step, request = self.in_flight.popleft(), self.request
        if not step.samples:
            return 0
        num_rejected = step.num_drafts - num_accepted
        if request.num_computed_tokens > 0:
            request.take_back(num_rejected)
        if request.num_output_placeholders > 0:
            request.num_output_placeholders -= num_rejected
        for _ in range(num_accepted + 1):
            request.all_token_ids.append(self.next_token)
            self.next_token += 1
        self.scheduling.fill_placeholders(request, num_accepted + 1)
        return num_accepted + 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the engine: a step is planned, then the results of the one before arrive.

    A request that is preempted is not planned. `num_accepted` is the most drafts that are right.
    """

    budget: int
    num_accepted: int = 0
    preempts: bool = False


class Race:
    """One request, whose steps are planned with your methods."""

    def __init__(
        self,
        scheduling: AsyncScheduling,
        name: str,
        num_prompt: int,
        max_tokens: int,
        most: int,
        rng: random.Random | None = None,
    ) -> None:
        self.request = request_with(
            num_prompt, computed=0, max_tokens=max_tokens, name=name, status=RequestStatus.WAITING
        )
        if rng is not None:
            kept = ("spec_token_ids", "num_output_placeholders", "sampling_params", "num_cached_tokens")
            varied(self.request, rng, keep=kept)
        self.pipeline = Pipeline(scheduling, self.request)
        prompt, drafts = counted(num_prompt, "token"), counted(most, "draft")
        self.history = [f"{name}: prompt of {prompt}, max_tokens={max_tokens}, at most {drafts}"]
        self.num_planned = 0
        self.number = -1

    @property
    def is_done(self) -> bool:
        return self.request.num_output_tokens >= self.request.sampling_params.max_tokens

    def must_agree(self, answers: Answers, turn: Turn) -> None:
        """Take a turn; end the test if its counters are not the recorded ones."""
        for yours, told in self.turn(turn):
            expect_equal(yours, answers(yours), **told)

    def turn(self, turn: Turn) -> Iterator[tuple[dict[str, object], Told]]:
        """Take a turn; yield the counters when the step is planned, and when the results of the one before arrive."""
        self.number += 1
        if turn.preempts and self.request.status is RequestStatus.RUNNING:
            self.request.preempt()
            turn = Turn(0, turn.num_accepted)
            self.history.append(f"step {self.number}: {self.request.request_id} is preempted")
        with explained(self.history, rule=RULE_OF_PLANS):
            plan = self.pipeline.plan(turn.budget)
        yield self._counters(plan), self._told(f"step {self.number} is planned, budget {turn.budget}")
        num_tokens, num_drafts = map(int, plan)  # numpy's integers are as good
        self.num_planned += num_tokens
        if len(self.pipeline.in_flight) < 2:
            return
        self.history.append(
            f"step {self.number}: planned {counted(num_tokens, 'token')}, with {counted(num_drafts, 'draft')}"
        )
        with explained(self.history, rule=RULE_OF_PLANS):
            num_arrived = self.pipeline.update(min(turn.num_accepted, int(self.pipeline.in_flight[0].num_drafts)))
        if self.is_done:
            return
        event = f"the results of step {self.number - 1} arrive: {counted(num_arrived, 'token')}"
        yield self._counters(plan), self._told(event)
        self.history.append(event)

    def _counters(self, plan: tuple[int, int]) -> dict[str, object]:
        return {
            "tokens planned": plan[0],
            "drafts among them": plan[1],
            "num_computed_tokens": self.request.num_computed_tokens,
            "num_output_placeholders": self.request.num_output_placeholders,
            "spec_token_ids": shown(self.request.spec_token_ids),
        }

    def _told(self, event: str) -> Told:
        return {
            "rule": RULE_OF_PLANS,
            "situation": [*shortened(self.history), f"now: {event}"],
            "hint": "do the tests of task 8.1 pass? If so: which counter is not what it should be, and since which "
            "step?",
        }


def shortened(history: list[str]) -> list[str]:
    """Return the first line of a history, all that tell of a preemption, and the last eight."""
    last = len(history) - 8
    return [line for place, line in enumerate(history) if place in (0, *range(last, len(history))) or "preempt" in line]


def random_races(
    scheduling: AsyncScheduling, most: int, rng: random.Random
) -> Iterator[tuple[dict[str, object], Told]]:
    """Let three requests run on one object, then three others of the same names; yield the counters of all turns."""
    is_tight, preempts = rng.random() < 0.5, rng.random() < 0.4
    for _ in range(2):
        races = [Race(scheduling, name, rng.randint(1, 12), rng.randint(1, 9), most, rng) for name in "ABC"]
        yield from take_turns(races, most, rng, is_tight=is_tight, preempts=preempts)


def take_turns(
    races: list[Race], most: int, rng: random.Random, *, is_tight: bool, preempts: bool
) -> Iterator[tuple[dict[str, object], Told]]:
    """Let requests run to their ends, in random order and with random budgets."""
    for _ in range(120):
        for race in rng.sample(races, len(races)):
            if race.is_done:
                continue
            budget = rng.choice([0, 1, 2, 3, 5]) if is_tight else 40
            yield from race.turn(Turn(budget, rng.randint(0, most), preempts and rng.random() < 0.1))
    assert all(race.is_done for race in races), "a random run that does not end tests nothing"
