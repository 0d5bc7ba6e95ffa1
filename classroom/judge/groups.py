"""The test groups of a phase: random situations, each group about one property and with its own points.

A mistake costs the points of the groups that it breaks, and no others. To add a group, add a line here.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from classroom.judge.engine import EVERYTHING, Mine, ScenarioRun
from classroom.judge.questions import phase1, phase2, phase3, phase4, phase5, phase7, phase8
from classroom.judge.scenario import Features, Scenario, draw_scenario
from classroom.judge.scenario_filters import (
    ScenarioFilter,
    anything,
    evicts,
    hits,
    planned_victims,
    preempts,
    returned_tokens_are_used,
    several_victims,
    the_guard_decides,
    victims_return_to_answers,
    waits,
)
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.errors import StalledError

MAX_DRAWS = 200
Draw = Callable[[Random], Any]


@dataclass(frozen=True)
class EngineRun:
    """A scenario, the parts that the learner's code replaces, and the reference's trace."""

    scenario: Scenario
    mine: Mine
    trace: list[StepRecord]


@dataclass(frozen=True)
class TestGroup:
    """One property of a phase. `draws` make its situations, in turn."""

    phase: int
    title: str
    points: int
    draws: tuple[Draw, ...]


def engine(mine: str | Mine, on: Features, shows: ScenarioFilter = anything) -> Callable[[Random], EngineRun]:
    """Return a function that draws a scenario in which the reference shows a behaviour."""
    parts = (mine,) if isinstance(mine, str) else mine

    def draw(rng: Random) -> EngineRun:
        for _ in range(MAX_DRAWS):
            scenario = draw_scenario(rng, on)
            play = ScenarioRun(scenario)
            try:
                while not play.finished:
                    play.step()
            except StalledError:  # a reluctant policy scheduled no request
                continue
            if shows(scenario, play.recorder.steps):
                return EngineRun(scenario, parts, play.recorder.steps)
        raise RuntimeError(f"no scenario in {MAX_DRAWS} shows the required behaviour: {on}")

    return draw


def tensors(name: str) -> Draw:
    """Return a function that draws a question for phase 6, whose module imports torch."""
    return lambda rng: getattr(importlib.import_module("classroom.judge.questions.phase6"), name)(rng)


def generation(rng: Random) -> Any:
    from classroom.judge.generation import draw_generation

    return draw_generation(rng)


PLAN = ("schedule_step",)
SIZES = ("num_new_tokens", "should_sample")
CACHE = "prefix cache"
SHORT = Features(is_tight=True, caching=True, has_threshold=True)
BY_PRIORITY = Features(is_tight=True, caching=True, policy="priority")
THRIFTY = Features(is_tight=True, policy="priority", small_budget=True)
RELUCTANT = Features(few_seats=True, reluctant=True)
LEAVING = Features(is_tight=True, caching=True, aborts=True)
GUARDED = Features(guard=True, is_tight=True, caching=True, has_threshold=True)

TEST_GROUPS = (
    TestGroup(1, "clamp", 10, (phase1.clamp_cases,)),
    TestGroup(
        1,
        "budget, seats and the order of service",
        10,
        (engine(PLAN, Features(few_seats=True), waits), engine(PLAN, RELUCTANT, waits)),
    ),
    TestGroup(
        1,
        "short memory, victims and prefix hits",
        10,
        (engine(PLAN, SHORT, preempts), engine(PLAN, THRIFTY, returned_tokens_are_used)),
    ),
    TestGroup(
        1,
        "what happens to sampled tokens",
        10,
        (phase1.update_cases, engine("update_from_output", Features(stops=True, aborts=True, long=True), waits)),
    ),
    TestGroup(2, "the free queue", 10, (phase2.free_queue_operations,)),
    TestGroup(2, "the pool and its reference counts", 10, (phase2.pool_operations,)),
    TestGroup(
        2,
        "block tables",
        10,
        (phase2.manager_operations, engine("kv", Features(is_tight=True, aborts=True), preempts)),
    ),
    TestGroup(
        2,
        "shared blocks",
        10,
        (engine("kv", LEAVING, evicts), engine("kv", BY_PRIORITY, planned_victims), phase2.manager_operations),
    ),
    TestGroup(3, "the priority queue", 10, (phase3.priority_queue_operations,)),
    TestGroup(3, "which request to preempt", 10, (phase3.victim_cases,)),
    TestGroup(
        3,
        "preempting, first come first served",
        10,
        (phase3.rooms_fcfs, engine("preemption", SHORT, several_victims)),
    ),
    TestGroup(
        3,
        "preempting, by priority",
        10,
        (
            phase3.rooms_by_priority,
            engine(("preemption", "queue"), BY_PRIORITY, planned_victims),
            engine(("preemption", "queue"), Features(policy="priority", is_tight=True, aborts=True), preempts),
        ),
    ),
    TestGroup(4, "hashes", 10, (phase4.hash_cases,)),
    TestGroup(4, "hits in ample memory", 10, (engine(CACHE, Features(caching=True), hits), phase4.cache_operations)),
    TestGroup(
        4,
        "eviction",
        10,
        (phase4.cache_operations, engine(CACHE, LEAVING, evicts), engine(CACHE, BY_PRIORITY, planned_victims)),
    ),
    TestGroup(4, "tenants and adapters", 10, (engine(CACHE, Features(caching=True, tenants=True), hits),)),
    TestGroup(4, "preempted requests that resume", 10, (engine(CACHE, SHORT, victims_return_to_answers),)),
    TestGroup(5, "the caps", 10, (phase5.cap_cases,)),
    TestGroup(
        5,
        "chunks and sampling",
        10,
        (phase5.sampling_cases, engine(SIZES, Features(has_threshold=True, caching=True), waits)),
    ),
    TestGroup(
        5,
        "chunking disabled",
        10,
        (
            engine(SIZES, Features(chunking=False, caching=True), waits),
            engine(SIZES, Features(chunking=False, caching=True, has_threshold=True), waits),
        ),
    ),
    TestGroup(5, "the admission guard", 10, (phase5.admission_cases, engine("admits", GUARDED, the_guard_decides))),
    TestGroup(6, "rows of a batch", 10, (tensors("rows"),)),
    TestGroup(6, "slots and block tables", 10, (tensors("places"),)),
    TestGroup(6, "writing K and V", 5, (tensors("kv_writes"),)),
    TestGroup(6, "paged attention", 10, (tensors("attentions"),)),
    TestGroup(6, "the sampler", 10, (tensors("samples"),)),
    TestGroup(6, "memory for the KV cache", 5, (tensors("memory_cases"),)),
    TestGroup(6, "a whole model's tokens", 10, (generation,)),
    TestGroup(7, "prompt lookup", 10, (phase7.lookups,)),
    TestGroup(7, "drafts in the schedule, and taken back", 10, (phase7.schedules, phase7.rollbacks)),
    TestGroup(7, "slots for a drafter with a KV cache", 10, (phase7.slots,)),
    TestGroup(7, "rows of logits", 10, (phase7.rows,)),
    TestGroup(7, "accepting drafts", 10, (phase7.acceptances,)),
    TestGroup(7, "rejection sampling", 10, (phase7.rejections,)),
    TestGroup(8, "placeholders", 10, (phase8.placeholder_orders, phase8.stand_ins)),
    TestGroup(8, "the last step", 10, (phase8.ends,)),
    TestGroup(8, "shares that were planned ahead", 10, (phase8.corrections,)),
)
TOGETHER = (
    engine(EVERYTHING, Features(is_tight=True, caching=True, has_threshold=True, aborts=True, stops=True), evicts),
    engine(EVERYTHING, Features(policy="priority", is_tight=True, caching=True, tenants=True), preempts),
    engine(EVERYTHING, Features(chunking=False, caching=True, guard=True, is_tight=True), waits),
)
