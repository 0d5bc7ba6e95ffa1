"""Runs of the reference's engine with one phase's calls recorded: a script of what an engine really asks.

Phase 1 calls other phases, so it runs on the public doubles of phases 2, 3 and 5; all others only answer.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from classroom.judge.question import JudgeQuestion, packed
from classroom.judge.questions.scheduling import policy
from classroom.judge.scenario import REFERENCE, Features, ScenarioFilter, anything, draw_scenario, preempts, waits
from classroom.judge.script import Script
from classroom.worker.doubles import AnyShare, AnyVictim, Memory
from classroom.worker.scenario import ScenarioRun, play_together
from mini_vllm.engine.errors import StalledError

MAX_DRAWS = 200
Draw = Callable[[Random], Any]


def plans(run: ScenarioRun, *, is_generous: bool = False) -> Script:
    """Record phase 1's plans, on doubles."""
    script, scheduler = Script(1), run.scheduler
    victims, shares = AnyVictim(), AnyShare(is_generous=is_generous)
    kv = Memory(scheduler.kv.block_size, scheduler.kv.free_block_ids())
    scheduler.kv, scheduler.preemption, scheduler.chunks = kv, victims, shares

    def schedule_step(*positional: Any, **named: Any) -> Any:
        victims.step = shares.step = shares.step + 1
        kv.freed.clear()
        return script.functions.schedule_step(*positional, **named)

    scheduler.functions = replace(scheduler.functions, schedule_step=schedule_step)
    return script


def updates(run: ScenarioRun) -> Script:
    """Record what phase 1 does with sampled tokens."""
    script, functions = Script(1), run.scheduler.functions
    run.scheduler.functions = replace(functions, update_from_output=script.functions.update_from_output)
    return script


def victims(run: ScenarioRun) -> Script:
    """Record phase 3: the preemptions, and by priority the queue."""
    script, policy = Script(3), run.engine.config.policy
    run.scheduler.preemption = script.functions.RecomputePreemption(policy)
    if policy == "priority":
        run.scheduler.waiting = script.functions.PriorityRequestQueue()
    return script


def chunks(run: ScenarioRun, *only: str) -> Script:
    script, config = Script(5, only), run.engine.config
    settings = (config.long_prefill_token_threshold, config.max_model_len, config.enable_chunked_prefill)
    run.scheduler.chunks = policy(script, [*settings, config.admission_guard])
    return script


PARTS: Mapping[str, Callable[[ScenarioRun], Script]] = {
    "plans": plans,
    "plans of large shares": partial(plans, is_generous=True),
    "updates": updates,
    "victims": victims,
    "chunks": lambda run: chunks(run, "num_new_tokens", "should_sample"),
    "admission": lambda run: chunks(run, "admits"),
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
