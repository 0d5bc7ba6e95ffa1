"""Runs of the reference's engine with one phase's calls recorded: a script of what an engine really asks."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from classroom.judge.question import JudgeQuestion, packed
from classroom.judge.scenario import REFERENCE, Features, ScenarioFilter, anything, draw_scenario, preempts, waits
from classroom.judge.script import Script
from classroom.worker.scenario import ScenarioRun, play_together
from mini_vllm.electives.prefix_caches import ObservedPrefixCache
from mini_vllm.engine.errors import StalledError

MAX_DRAWS = 200
Draw = Callable[[Random], Any]


def cached_blocks(run: ScenarioRun) -> Script:
    script, cache = Script(4), run.scheduler.prefix_cache
    assert isinstance(cache, ObservedPrefixCache)
    cache.inner = script.functions.HashPrefixCache(run.engine.config.block_size)
    return script


PARTS: Mapping[str, Callable[[ScenarioRun], Script]] = {
    "cached blocks": cached_blocks,
}


def calls(part: str, on: Features, shows: ScenarioFilter = anything) -> Draw:
    """Return a function that draws the calls of a part in a scenario in which the reference shows a behaviour."""

    def draw(rng: Random) -> JudgeQuestion:
        for _ in range(MAX_DRAWS):
            scenario = draw_scenario(rng, on)
            run = ScenarioRun(scenario, REFERENCE)
            script = PARTS[part](run)
            with suppress(StalledError):  # the doubles planned nothing: the calls so far are as good
                run.trace()
            if script.calls and shows(scenario, run.recorder.steps):
                return script.question(scenario)
        raise RuntimeError(f"no scenario in {MAX_DRAWS} shows the required behaviour: {on}")

    return draw


def together(on: Features, up_to: int) -> Draw:
    """Return a function that draws a scenario for an engine of phases 1 to `up_to`, the others absent."""
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
