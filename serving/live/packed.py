"""What is kept of a step: the state before some of them, and for each one what it changed."""

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step_record import StepRecord


@dataclass
class Totals:
    """Counters over all steps of a server."""

    ended: int = 0
    preemptions: int = 0
    hit_tokens: int = 0
    query_tokens: int = 0
    drafts: int = 0
    accepted: int = 0


class PackedStep(NamedTuple):
    """A step. Its record has no block tables of requests that ran before: they grow by their new blocks.

    `waiting_after` names the first of those that wait. `sampled` are the tokens of the step that this one applied,
    `lengths` the prompt tokens of the requests that arrived.
    """

    record: StepRecord
    sampled: dict[str, list[int]]
    lengths: dict[str, int]
    totals: Totals


class RequestState(NamedTuple):
    """A request between two steps."""

    request_id: str
    num_prompt_tokens: int
    num_output_tokens: int
    num_computed_tokens: int
    blocks: list[int]


@dataclass
class Keyframe:
    """The state between two steps: the unfinished requests in order of arrival, the free queue, the cache."""

    requests: list[RequestState]
    free_queue: "array[int]"
    cached: "array[int]"
    totals: Totals = field(default_factory=Totals)


def keyframe_of(scheduler: Scheduler, totals: Totals) -> Keyframe:
    """Return the state of a scheduler. Called on the engine's thread, between two steps."""
    kv = scheduler.kv
    requests = [
        RequestState(
            r.request_id,
            r.num_prompt_tokens,
            r.num_output_tokens,
            r.num_computed_tokens,
            list(kv.block_ids(r.request_id)) if r.status is RequestStatus.RUNNING else [],
        )
        for r in scheduler.requests.values()
    ]
    return Keyframe(requests, *pool_of(scheduler), totals)


def pool_of(scheduler: Scheduler) -> "tuple[array[int], array[int]]":
    """Return the free queue, front first, and the blocks in the prefix cache."""
    return array("I", scheduler.kv.free_block_ids()), array("I", scheduler.prefix_cache.cached_blocks())
