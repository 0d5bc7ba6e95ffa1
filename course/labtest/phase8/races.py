"""Steps of some requests, planned with your methods and with lines of tokens, side by side."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from course.labtest.expect import difference_report, explained
from course.labtest.failure import Failed, Report
from course.labtest.phase8.cases import request_with, shown
from course.labtest.phase8.line_of_tokens import LineOfTokens
from course.labtest.phase8.pipeline import Pipeline
from course.views.text import counted
from mini_vllm.core.electives import AsyncScheduling
from mini_vllm.core.request import RequestStatus

RULE_OF_PLANS = (
    "A step computes what is known or expected and not computed yet, and drafts; nothing if the step in flight is "
    "sure to reach max_tokens."
)
PLAN_ROWS = ("tokens planned", "drafts among them")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the engine: a step is planned, then the results of the one before arrive.

    A request that is preempted is not planned. `num_accepted` is the most drafts that are right.
    """

    budget: int
    num_accepted: int = 0
    preempts: bool = False


class Race:
    """One request in both ways."""

    def __init__(self, scheduling: AsyncScheduling, name: str, num_prompt: int, max_tokens: int, most: int) -> None:
        request = request_with(num_prompt, computed=0, max_tokens=max_tokens, name=name, status=RequestStatus.WAITING)
        self.yours = Pipeline(scheduling, request)
        self.model = LineOfTokens(num_prompt, max_tokens, most)
        prompt, drafts = counted(num_prompt, "token"), counted(most, "draft")
        self.history = [f"{name}: prompt of {prompt}, max_tokens={max_tokens}, at most {drafts}"]
        self.num_planned = 0
        self.number = -1

    @property
    def is_done(self) -> bool:
        return self.model.is_full

    def must_agree(self, turn: Turn) -> None:
        """Take a turn in both ways; end the test if they differ."""
        if report := self.turn(turn):
            raise Failed(report, report.parts)

    def turn(self, turn: Turn) -> Report:
        """Take a turn in both ways; return a report if they differ."""
        self.number += 1
        if turn.preempts and not self.model.waits:
            self.model.preempt()
            self.yours.request.preempt()
            turn = Turn(0, turn.num_accepted)
            self.history.append(f"step {self.number}: {self.yours.request.request_id} is preempted")
        with explained(self.history, rule=RULE_OF_PLANS):
            yours = self.yours.plan(turn.budget)
        right = self.model.plan(turn.budget)
        self.num_planned += right[0]
        report = self._compare(yours, right, f"step {self.number} is planned, budget {turn.budget}")
        if report or len(self.model.in_flight) < 2:
            return report
        self.history.append(
            f"step {self.number}: planned {counted(right[0], 'token')}, with {counted(right[1], 'draft')}"
        )
        accepted = min(turn.num_accepted, max(0, len(self.model.in_flight[0]) - 1))
        with explained(self.history, rule=RULE_OF_PLANS):
            self.yours.update(accepted)
        num_arrived = self.model.update(accepted)
        if self.is_done:
            return Report()
        event = f"the results of step {self.number - 1} arrive: {counted(num_arrived, 'token')}"
        report = self._compare(right, right, event)
        self.history.append(event)
        return report

    def _compare(self, yours: Sequence[int], right: Sequence[int], event: str) -> Report:
        request, model = self.yours.request, self.model
        return difference_report(
            dict(zip(PLAN_ROWS, yours, strict=True))
            | {
                "num_computed_tokens": request.num_computed_tokens,
                "num_output_placeholders": request.num_output_placeholders,
                "spec_token_ids": shown(request.spec_token_ids),
            },
            dict(zip(PLAN_ROWS, right, strict=True))
            | {
                "num_computed_tokens": model.num_computed,
                "num_output_placeholders": model.num_expected,
                "spec_token_ids": [-1] * model.num_stand_ins,
            },
            rule=RULE_OF_PLANS,
            situation=[*self.history[:1], *self.history[1:][-8:], f"now: {event}"],
            hint="do the tests of task 8.1 pass? If so: which counter is not what it should be, and since which step?",
        )


def random_races(scheduling: AsyncScheduling, most: int, rng: random.Random) -> str:
    """Let three requests run on one object; return the report of the first difference."""
    races = [Race(scheduling, name, rng.randint(1, 12), rng.randint(1, 9), most) for name in "ABC"]
    is_tight, preempts = rng.random() < 0.5, rng.random() < 0.4
    for _ in range(120):
        for race in rng.sample(races, len(races)):
            if race.is_done:
                continue
            budget = rng.choice([0, 1, 2, 3, 5]) if is_tight else 40
            turn = Turn(budget, rng.randint(0, most), preempts and rng.random() < 0.1)
            if report := race.turn(turn):
                return report
    assert all(race.is_done for race in races), "a random run that does not end tests nothing"
    return ""
