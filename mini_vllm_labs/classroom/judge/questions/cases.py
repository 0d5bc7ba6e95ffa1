"""Builds questions from the named cases of the graded tests, and from random ones."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Any

from mini_vllm_labs.classroom.judge.question import MAX_CASES, JudgeQuestion, question, reference, short
from mini_vllm_labs.classroom.worker.drivers import NUM_IN_BETWEEN
from mini_vllm_labs.grading.labtest.case_table import groups


@dataclass(frozen=True)
class Cases:
    """Asks the cases of a task, and those of a second task in the same group if `also` is set."""

    phase: int
    task: int
    also: int | None = None

    def __call__(self, rng: Random) -> JudgeQuestion:
        """Return random cases."""
        plays = plays_of(self.phase)
        drawn = [(groups(plays, task)[0]["play"], task) for task in self._tasks for _ in range(MAX_CASES)]
        return self._question([(play, plays.random_case(rng, task)) for play, task in drawn], rng)

    def named(self, rng: Random) -> JudgeQuestion:
        """Return the named cases."""
        told = [group for task in self._tasks for group in groups(plays_of(self.phase), task)]
        return self._question([(group["play"], given) for group in told for given in group["cases"].values()], rng)

    @property
    def _tasks(self) -> list[int]:
        return [self.task, *filter(None, [self.also])]

    def _question(self, cases: list[tuple[str, Sequence[Any]]], rng: Random) -> JudgeQuestion:
        rng.shuffle(cases)
        shown = [short(f"{play}{tuple(given)}") for play, given in cases]
        shown += [f"{text} (another case was played between two of its calls)" for text in shown[:NUM_IN_BETWEEN]]
        if self.phase == 5:
            cases = [(play, (*given, clamp_choices())) for play, given in cases]
        return question(self.phase, "table", self.phase, cases, shown=shown)


def plays_of(phase: int) -> Any:
    return importlib.import_module(f"mini_vllm_labs.grading.plays.phase{phase}_plays")


@cache
def clamp_choices() -> dict[tuple[bool, ...], int]:
    """Return phase 1's `clamp` as a table keyed by the order of its arguments, so the jail gets no code."""
    from mini_vllm_labs.grading.plays.phase5_plays import order_of

    given = [(0, *numbers) for numbers in product(range(-3, 4), repeat=3)]
    return {order_of(one): one.index(reference(1).clamp(*one[1:])) for one in given}
