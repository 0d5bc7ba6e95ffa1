"""Defines the test groups of each phase. A group tests one property in random situations, and gives points for it.

A mistake costs only the points of the groups that it breaks. To add a group, add a line to `SITUATIONS`.
"""

import importlib
from dataclasses import dataclass

from mini_vllm_labs.classroom.judge.questions.cases import Cases
from mini_vllm_labs.classroom.judge.recorded_runs import Draw
from mini_vllm_labs.classroom.judge.scenario import Features


@dataclass(frozen=True)
class TestGroup:
    """Tests one property of a phase. `draw` draws its situations."""

    phase: int
    title: str
    points: int
    draw: Draw


def tensors(name: str, module: str = "tensors") -> Draw:
    """Return a function that draws a question with tensors; it imports its module and torch only when called."""
    return lambda rng: getattr(importlib.import_module(f"mini_vllm_labs.classroom.judge.questions.{module}"), name)(rng)


# Maps a phase to its groups: each title with the function that draws its situations.
SITUATIONS: dict[int, dict[str, Draw]] = {
    1: {
        "clamp": Cases(1, 1),
        "running requests": Cases(1, 2),
        "admission": Cases(1, 3),
        "what happens to sampled tokens": Cases(1, 4),
    },
    2: {
        "the free queue": Cases(2, 1),
        "the pool and its reference counts": Cases(2, 2),
        "block tables": Cases(2, 3),
        "shared blocks": Cases(2, 4),
    },
    3: {
        "the priority queue": Cases(3, 1),
        "which request to preempt": Cases(3, 2),
        "preempting, first come first served": Cases(3, 3, 4),
        "preempting, by priority": Cases(3, 5),
    },
    4: {
        "hashes": Cases(4, 1),
        "hashes of a request": Cases(4, 2),
        "what is cached": Cases(4, 3),
        "hits": Cases(4, 4),
        "eviction": Cases(4, 5),
    },
    5: {
        "the caps": Cases(5, 1),
        "chunks and sampling": Cases(5, 3),
        "chunking disabled": Cases(5, 2),
        "the admission guard": Cases(5, 4),
    },
    6: {
        "rows of a batch": Cases(6, 1),
        "slots and block tables": Cases(6, 2),
        "writing K and V": tensors("kv_writes"),
        "paged attention": tensors("attentions"),
        "the sampler": tensors("samples"),
        "memory for the KV cache": Cases(6, 6),
        "a whole model, layer by layer": tensors("draw_generation"),
    },
    7: {
        "prompt lookup": Cases(7, 1),
        "drafts in the schedule, and taken back": Cases(7, 2),
        "slots for a drafter with a KV cache": Cases(7, 3),
        "rows of logits": Cases(7, 4),
        "accepting drafts": Cases(7, 5),
        "rejection sampling": tensors("rejections", "rejections"),
    },
    8: {
        "placeholders": Cases(8, 1),
        "the last step": Cases(8, 2),
        "shares that were planned ahead": Cases(8, 3),
    },
    9: {
        "one step of a regex": Cases(9, 1),
        "the DFA": Cases(9, 2),
        "tokens of a state": Cases(9, 3),
        "the bitmask": Cases(9, 4),
        "a request's place": Cases(9, 5),
    },
    10: {
        "the store": Cases(10, 1),
        "what is stored": Cases(10, 2),
        "blocks to load": Cases(10, 3),
        "blocks to save": Cases(10, 4),
        "copies": Cases(10, 5),
    },
    11: {
        "adapters of a step": Cases(11, 1),
        "the encodings that exist": Cases(11, 2),
        "where a chunk ends": Cases(11, 3),
        "keys of a block": Cases(11, 4),
        "rows of different adapters": Cases(11, 5),
    },
    12: {
        "what leaves a window": Cases(12, 1),
        "blocks for all groups": Cases(12, 2),
        "the hit of a sliding layer": Cases(12, 3),
        "the hit of all groups": Cases(12, 4),
        "attention with a window": Cases(12, 5),
    },
    13: {
        "fair shares": Cases(13, 1),
        "least slack": Cases(13, 2),
    },
    14: {
        "the threshold of a step": Cases(14, 1),
        "freed blocks": Cases(14, 2),
        "room at admission": Cases(14, 3),
        "the loop after a preemption": Cases(14, 4),
        "steps with prompts": Cases(14, 5),
        "blocks of a window": Cases(14, 6),
    },
}
POINTS = {"writing K and V": 5, "memory for the KV cache": 5}  # all others: 10
TEST_GROUPS = [
    TestGroup(phase, title, POINTS.get(title, 10), draw)
    for phase, groups in SITUATIONS.items()
    for title, draw in groups.items()
]
TOGETHER = (
    Features(is_tight=True, caching=True, has_threshold=True, aborts=True, stops=True),
    Features(policy="priority", is_tight=True, caching=True, tenants=True),
    Features(chunking=False, caching=True, guard=True, is_tight=True),
)
