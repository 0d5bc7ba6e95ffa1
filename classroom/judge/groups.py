"""The test groups of a phase: random situations, each group about one property and with its own points.

A mistake costs the points of the groups that it breaks, and no others. To add a group, add a line here.
"""

import importlib
from dataclasses import dataclass
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

TEST_GROUPS = (
    TestGroup(1, "clamp", 10, (phase1.clamp_cases,)),
    TestGroup(
        1,
        "budget, seats and the order of service",
        10,
        (
            calls("plans", Features(few_seats=True), waits),
            calls("plans of large shares", Features(few_seats=True), waits),
        ),
    ),
    TestGroup(
        1,
        "short memory, victims and prefix hits",
        10,
        (calls("plans of large shares", SHORT, preempts), calls("plans", THRIFTY, returned_tokens_are_used)),
    ),
    TestGroup(
        1,
        "what happens to sampled tokens",
        10,
        (phase1.update_cases, calls("updates", Features(stops=True, aborts=True, long=True), waits)),
    ),
    TestGroup(2, "the free queue", 10, (phase2.free_queue_operations,)),
    TestGroup(2, "the pool and its reference counts", 10, (phase2.pool_operations,)),
    TestGroup(
        2,
        "block tables",
        10,
        (phase2.manager_operations, calls("block tables", Features(is_tight=True, aborts=True), preempts)),
    ),
    TestGroup(
        2,
        "shared blocks",
        10,
        (
            calls("block tables", LEAVING, hits),
            calls("block tables", BY_PRIORITY, planned_victims),
            phase2.manager_operations,
        ),
    ),
    TestGroup(3, "the priority queue", 10, (phase3.priority_queue_operations,)),
    TestGroup(3, "which request to preempt", 10, (phase3.victim_cases,)),
    TestGroup(
        3,
        "preempting, first come first served",
        10,
        (phase3.rooms_fcfs, calls("victims", SHORT, several_victims)),
    ),
    TestGroup(
        3,
        "preempting, by priority",
        10,
        (
            phase3.rooms_by_priority,
            calls("victims", BY_PRIORITY, planned_victims),
            calls("victims", Features(policy="priority", is_tight=True, aborts=True), preempts),
        ),
    ),
    TestGroup(4, "hashes", 10, (phase4.hash_cases,)),
    TestGroup(
        4, "hits in ample memory", 10, (calls("cached blocks", Features(caching=True), hits), phase4.cache_operations)
    ),
    TestGroup(
        4,
        "eviction",
        10,
        (
            phase4.cache_operations,
            calls("cached blocks", LEAVING, evicts),
            calls("cached blocks", BY_PRIORITY, planned_victims),
        ),
    ),
    TestGroup(4, "tenants and adapters", 10, (calls("cached blocks", Features(caching=True, tenants=True), hits),)),
    TestGroup(4, "preempted requests that resume", 10, (calls("cached blocks", SHORT, victims_return_to_answers),)),
    TestGroup(5, "the caps", 10, (phase5.cap_cases,)),
    TestGroup(
        5,
        "chunks and sampling",
        10,
        (phase5.sampling_cases, calls("chunks", Features(has_threshold=True, caching=True), waits)),
    ),
    TestGroup(
        5,
        "chunking disabled",
        10,
        (
            calls("chunks", Features(chunking=False, caching=True), waits),
            calls("chunks", Features(chunking=False, caching=True, has_threshold=True), waits),
        ),
    ),
    TestGroup(5, "the admission guard", 10, (phase5.admission_cases, calls("admission", GUARDED, the_guard_decides))),
    TestGroup(6, "rows of a batch", 10, (tensors("rows"),)),
    TestGroup(6, "slots and block tables", 10, (tensors("places"),)),
    TestGroup(6, "writing K and V", 5, (tensors("kv_writes"),)),
    TestGroup(6, "paged attention", 10, (tensors("attentions"),)),
    TestGroup(6, "the sampler", 10, (tensors("samples"),)),
    TestGroup(6, "memory for the KV cache", 5, (tensors("memory_cases"),)),
    TestGroup(6, "a whole model, layer by layer", 10, (generation,)),
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
    Features(is_tight=True, caching=True, has_threshold=True, aborts=True, stops=True),
    Features(policy="priority", is_tight=True, caching=True, tenants=True),
    Features(chunking=False, caching=True, guard=True, is_tight=True),
)
