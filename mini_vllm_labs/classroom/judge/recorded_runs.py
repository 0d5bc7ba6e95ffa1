"""Compares whole engines of the first phases with the reference's, step by step."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from mini_vllm_labs.classroom.judge.question import JudgeQuestion, packed
from mini_vllm_labs.classroom.judge.scenario import Features, draw_scenario, preempts, waits
from mini_vllm_labs.classroom.worker.scenario import play_together

MAX_DRAWS = 200
Draw = Callable[[Random], Any]


def together(on: Features, up_to: int) -> Draw:
    """Return a function that draws a scenario for an engine with phases 1 to `up_to` and no others."""
    features = replace(
        on,
        policy=on.policy if up_to >= 3 else "fcfs",
        is_tight=up_to >= 3,
        caching=on.caching and up_to >= 4,
        chunking=on.chunking and up_to >= 5,
        has_threshold=on.has_threshold and up_to >= 5,
        guard=on.guard and up_to >= 5,
    )
    shows = preempts if up_to >= 3 and on.policy == "priority" else waits

    def draw(rng: Random) -> JudgeQuestion:
        for _ in range(MAX_DRAWS):
            scenario = draw_scenario(rng, features)
            *expected, has_finished = play_together({}, scenario, f"solution:1-{up_to}")
            if has_finished is True and shows(scenario, expected):
                asked = packed((scenario, f"starter:1-{up_to}"))
                return JudgeQuestion(0, "play_together", asked, [*expected, True], scenario=scenario)
        raise RuntimeError(f"no scenario in {MAX_DRAWS} shows the required behaviour: {features}")

    return draw
