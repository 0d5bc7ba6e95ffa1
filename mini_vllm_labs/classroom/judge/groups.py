"""The test groups of a phase: each draws random situations on one property and has its own points.

A mistake costs only the points of the groups that it breaks. To add a group, add a line to `SITUATIONS`.
"""

import importlib
from dataclasses import dataclass
from functools import partial

from mini_vllm_labs.classroom.judge.questions import electives, upkeep
from mini_vllm_labs.classroom.judge.recorded_runs import Draw
from mini_vllm_labs.classroom.judge.scenario import Features


@dataclass(frozen=True)
class TestGroup:
    """One property of a phase. The functions in `draws` take turns to draw its situations."""

    phase: int
    title: str
    points: int
    draws: tuple[Draw, ...]


def tensors(name: str) -> Draw:
    """Return a function that draws a question for phase 6, whose module imports torch."""
    return lambda rng: getattr(importlib.import_module("mini_vllm_labs.classroom.judge.questions.tensors"), name)(rng)


# By phase and title of the group: the functions that take turns to draw its situations.
SITUATIONS: dict[int, dict[str, tuple[Draw, ...]]] = {
    1: {
        "clamp": (partial(electives.table, phase=1, task=1),),
        "running requests": (partial(electives.table, phase=1, task=2),),
        "admission": (partial(electives.table, phase=1, task=3),),
        "what happens to sampled tokens": (partial(electives.table, phase=1, task=4),),
    },
    2: {
        "the free queue": (partial(electives.table, phase=2, task=1),),
        "the pool and its reference counts": (partial(electives.table, phase=2, task=2),),
        "block tables": (partial(electives.table, phase=2, task=3),),
        "shared blocks": (partial(electives.table, phase=2, task=4),),
    },
    3: {
        "the priority queue": (partial(electives.table, phase=3, task=1),),
        "which request to preempt": (partial(electives.table, phase=3, task=2),),
        "preempting, first come first served": (partial(electives.table, phase=3, task=3, also=4),),
        "preempting, by priority": (partial(electives.table, phase=3, task=5),),
    },
    4: {
        "hashes": (partial(electives.table, phase=4, task=1),),
        "hashes of a request": (partial(electives.table, phase=4, task=2),),
        "what is cached": (partial(electives.table, phase=4, task=3),),
        "hits": (partial(electives.table, phase=4, task=4),),
        "eviction": (partial(electives.table, phase=4, task=5),),
    },
    5: {
        "the caps": (partial(electives.table, phase=5, task=1),),
        "chunks and sampling": (partial(electives.table, phase=5, task=3),),
        "chunking disabled": (partial(electives.table, phase=5, task=2),),
        "the admission guard": (partial(electives.table, phase=5, task=4),),
    },
    6: {
        "rows of a batch": (partial(electives.table, phase=6, task=1),),
        "slots and block tables": (partial(electives.table, phase=6, task=2),),
        "writing K and V": (tensors("kv_writes"),),
        "paged attention": (tensors("attentions"),),
        "the sampler": (tensors("samples"),),
        "memory for the KV cache": (partial(electives.table, phase=6, task=6),),
        "a whole model, layer by layer": (tensors("draw_generation"),),
    },
    7: {
        "prompt lookup": (electives.lookups, upkeep.OF_LOOKUPS, electives.lookups, upkeep.lookup_reads),
        "drafts in the schedule, and taken back": (electives.schedules, electives.rollbacks, upkeep.OF_DRAFTS),
        "slots for a drafter with a KV cache": (electives.slots,),
        "rows of logits": (electives.rows,),
        "accepting drafts": (electives.acceptances,),
        "rejection sampling": (electives.rejections,),
    },
    8: {
        "placeholders": (electives.placeholder_orders, electives.stand_ins, upkeep.OF_PLACEHOLDERS),
        "the last step": (electives.ends,),
        "shares that were planned ahead": (electives.corrections,),
    },
    9: {
        "one step of a regex": (partial(electives.table, phase=9, task=1),),
        "the DFA": (partial(electives.table, phase=9, task=2),),
        "tokens of a state": (partial(electives.table, phase=9, task=3),),
        "the bitmask": (partial(electives.table, phase=9, task=4),),
        "a request's place": (partial(electives.table, phase=9, task=5),),
    },
    10: {
        "the store": (partial(electives.table, phase=10, task=1),),
        "what is stored": (partial(electives.table, phase=10, task=2),),
        "blocks to load": (partial(electives.table, phase=10, task=3),),
        "blocks to save": (partial(electives.table, phase=10, task=4),),
        "copies": (partial(electives.table, phase=10, task=5),),
    },
    11: {
        "adapters of a step": (partial(electives.table, phase=11, task=1),),
        "the encodings that exist": (partial(electives.table, phase=11, task=2),),
        "where a chunk ends": (partial(electives.table, phase=11, task=3),),
        "keys of a block": (partial(electives.table, phase=11, task=4),),
        "rows of different adapters": (partial(electives.table, phase=11, task=5),),
    },
    12: {
        "what leaves a window": (partial(electives.table, phase=12, task=1),),
        "blocks for all groups": (partial(electives.table, phase=12, task=2),),
        "the hit of a sliding layer": (partial(electives.table, phase=12, task=3),),
        "the hit of all groups": (partial(electives.table, phase=12, task=4),),
        "attention with a window": (partial(electives.table, phase=12, task=5),),
    },
    13: {
        "fair shares": (partial(electives.table, phase=13, task=1),),
        "least slack": (partial(electives.table, phase=13, task=2),),
    },
}
POINTS = {"writing K and V": 5, "memory for the KV cache": 5}  # all others: 10
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
