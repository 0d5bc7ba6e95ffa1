"""The test groups of a phase: random situations, each group about one property and with its own points.

A mistake costs the points of the groups that it breaks, and no others. To add a group, add a line to `SITUATIONS`.
"""

import importlib
from dataclasses import dataclass, replace
from random import Random

from classroom.judge.question import JudgeQuestion
from classroom.judge.questions import phase1, phase2, phase3, phase4, phase5, phase7, phase8
from classroom.judge.recorded_runs import Draw, calls
from classroom.judge.scenario import Features
from classroom.judge.scenario_filters import (
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


@dataclass(frozen=True)
class TestGroup:
    """One property of a phase. `draws` make its situations, in turn."""

    phase: int
    title: str
    points: int
    draws: tuple[Draw, ...]


def tensors(name: str) -> Draw:
    """Return a function that draws a question for phase 6, whose module imports torch."""
    return lambda rng: getattr(importlib.import_module("classroom.judge.questions.phase6"), name)(rng)


def generation(rng: Random) -> JudgeQuestion:
    from classroom.judge.generation import draw_generation

    return draw_generation(rng)


SHORT = Features(is_tight=True, caching=True, has_threshold=True)
BY_PRIORITY = Features(is_tight=True, caching=True, policy="priority")
THRIFTY = Features(is_tight=True, small_budget=True)
LEAVING = Features(is_tight=True, caching=True, aborts=True)
GUARDED = Features(guard=True, is_tight=True, caching=True, has_threshold=True)

FEW_SEATS = Features(few_seats=True)
WHOLE_PROMPTS = Features(chunking=False, caching=True)

# Phase, title of the group, and what draws its situations, in turn.
SITUATIONS: dict[int, dict[str, tuple[Draw, ...]]] = {
    1: {
        "clamp": (phase1.clamp_cases,),
        "budget, seats and the order of service": (
            calls("plans", FEW_SEATS, waits),
            calls("plans of large shares", FEW_SEATS, waits),
        ),
        "short memory, victims and prefix hits": (
            calls("plans of large shares", SHORT, preempts),
            calls("plans", THRIFTY, returned_tokens_are_used),
        ),
        "what happens to sampled tokens": (
            phase1.update_cases,
            calls("updates", Features(stops=True, aborts=True, long=True), waits),
        ),
    },
    2: {
        "the free queue": (phase2.free_queue_operations,),
        "the pool and its reference counts": (phase2.pool_operations,),
        "block tables": (
            phase2.manager_operations,
            calls("block tables", Features(is_tight=True, aborts=True), preempts),
        ),
        "shared blocks": (
            calls("block tables", LEAVING, hits),
            calls("block tables", BY_PRIORITY, planned_victims),
            phase2.manager_operations,
        ),
    },
    3: {
        "the priority queue": (phase3.priority_queue_operations,),
        "which request to preempt": (phase3.victim_cases,),
        "preempting, first come first served": (phase3.rooms_fcfs, calls("victims", SHORT, several_victims)),
        "preempting, by priority": (
            phase3.rooms_by_priority,
            calls("victims", BY_PRIORITY, planned_victims),
            calls("victims", Features(policy="priority", is_tight=True, aborts=True), preempts),
        ),
    },
    4: {
        "hashes": (phase4.hash_cases,),
        "hits in ample memory": (calls("cached blocks", Features(caching=True), hits), phase4.cache_operations),
        "eviction": (
            phase4.cache_operations,
            calls("cached blocks", LEAVING, evicts),
            calls("cached blocks", BY_PRIORITY, planned_victims),
        ),
        "tenants and adapters": (calls("cached blocks", Features(caching=True, tenants=True), hits),),
        "preempted requests that resume": (calls("cached blocks", SHORT, victims_return_to_answers),),
    },
    5: {
        "the caps": (phase5.cap_cases,),
        "chunks and sampling": (
            phase5.sampling_cases,
            calls("chunks", Features(has_threshold=True, caching=True), waits),
        ),
        "chunking disabled": (
            calls("chunks", WHOLE_PROMPTS, waits),
            calls("chunks", replace(WHOLE_PROMPTS, has_threshold=True), waits),
        ),
        "the admission guard": (phase5.admission_cases, calls("admission", GUARDED, the_guard_decides)),
    },
    6: {
        "rows of a batch": (tensors("rows"),),
        "slots and block tables": (tensors("places"),),
        "writing K and V": (tensors("kv_writes"),),
        "paged attention": (tensors("attentions"),),
        "the sampler": (tensors("samples"),),
        "memory for the KV cache": (tensors("memory_cases"),),
        "a whole model, layer by layer": (generation,),
    },
    7: {
        "prompt lookup": (phase7.lookups,),
        "drafts in the schedule, and taken back": (phase7.schedules, phase7.rollbacks),
        "slots for a drafter with a KV cache": (phase7.slots,),
        "rows of logits": (phase7.rows,),
        "accepting drafts": (phase7.acceptances,),
        "rejection sampling": (phase7.rejections,),
    },
    8: {
        "placeholders": (phase8.placeholder_orders, phase8.stand_ins),
        "the last step": (phase8.ends,),
        "shares that were planned ahead": (phase8.corrections,),
    },
}
POINTS = {"writing K and V": 5, "memory for the KV cache": 5}  # of the others: 10
TEST_GROUPS = [
    TestGroup(phase, title, POINTS.get(title, 10), draws)
    for phase, groups in SITUATIONS.items()
    for title, draws in groups.items()
]
TOGETHER = (
    Features(is_tight=True, caching=True, has_threshold=True, aborts=True, stops=True),
    Features(policy="priority", is_tight=True, caching=True, tenants=True),
    Features(chunking=False, caching=True, guard=True, is_tight=True),
)
