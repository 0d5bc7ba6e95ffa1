"""Functions for the checks in phase 3's handout: each runs one step or workload on reference phases 1 to 5."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from mini_vllm.config import Policy
from mini_vllm.core.absent import NoPrefixCache
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.invariants import InvariantError
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm_labs.grading.plays.support import make_request
from solutions import phase1_scheduler_step as phase1
from solutions import phase3_preemption as phase3
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase4_prefix_cache import HashPrefixCache
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.handouts.checks.phase2 import blocks, decoded, trace_of
from tests.handouts.checks.runs import numbers_in_error

Row = tuple[str, int, int] | tuple[str, int, int, int]  # name, number of computed tokens, number of tokens, priority

ABC: list[Row] = [("A", 8, 9), ("B", 8, 9), ("C", 8, 9)]
FIVE: list[Row] = [("A", 8, 20), ("B", 4, 4), ("C", 4, 5), ("D", 4, 5), ("E", 4, 5)]
PLANNED: list[Row] = [("A", 8, 9, 0), ("B", 8, 13, 9), ("C", 8, 9, 1)]
SELF: list[Row] = [("A", 7, 8, 0), ("B", 8, 9, 9), ("C", 8, 9, 0)]


@dataclass(frozen=True)
class Outcome:
    plan: dict[str, int]
    preempted: list[tuple[str, str, int]]
    running: str
    waiting: str
    free: int


def _requests(rows: Sequence[Row]) -> list[Request]:
    requests = []
    for arrival, (name, computed, tokens, *priority) in enumerate(rows):
        rank = priority[0] if priority else 0
        requests.append(
            make_request(name, tokens, num_computed_tokens=computed, priority=rank, arrival_time=float(arrival))
        )
    return requests


def step(running: Sequence[Row], usable: int, waiting: Sequence[Row] = (), policy: Policy = "fcfs") -> Outcome:
    """Plan one step over `usable` blocks of 4 tokens; running requests hold the blocks of their computed tokens."""
    kv = PagedKVCacheManager(usable + 1, 4, NoPrefixCache())
    runners = _requests(running)
    for request in runners:
        num_computed, request.num_computed_tokens = request.num_computed_tokens, 0
        assert kv.allocate_slots(request, num_computed) is not None
        request.num_computed_tokens = num_computed
    queue: RequestQueue = phase3.PriorityRequestQueue() if policy == "priority" else FCFSRequestQueue()
    for request in _requests(waiting):
        queue.add_request(request)
    output = phase1.schedule_step(
        runners,
        queue,
        max_num_seqs=100,
        max_num_batched_tokens=100,
        kv=kv,
        preemption=phase3.RecomputePreemption(policy),
        chunks=ChunkedPrefillPolicy(phase1.clamp, 0, 10_000),
    )
    return Outcome(
        output.num_scheduled_tokens,
        [(p.victim_id, p.cause_id, p.num_tokens_returned) for p in output.preempted],
        "".join(request.request_id for request in runners),
        "".join(request.request_id for request in queue),
        kv.num_free_blocks,
    )


def queue_order(*ranks: tuple[str, int, float]) -> str:
    """Return the order in which a priority queue considers requests given as (name, priority, arrival time)."""
    queue = phase3.PriorityRequestQueue()
    for name, priority, arrival_time in ranks:
        queue.add_request(make_request(name, 4, priority=priority, arrival_time=arrival_time))
    return "".join(request.request_id for request in queue)


def victim(policy: Policy, *ranks: tuple[str, int, float]) -> str:
    running = [make_request(name, 9, priority=p, arrival_time=t, num_computed_tokens=8) for name, p, t in ranks]
    return phase3.choose_victim(running, policy).request_id


def computed_before(num_prompt: int, num_outputs: int) -> int:
    """Return how many tokens of a decoding request are computed: all but the newest."""
    return make_request("A", num_prompt, num_output_tokens=num_outputs).num_tokens - 1


def resumed(num_prompt: int, num_outputs: int, *, caching: bool = True, preempt_first: bool = False) -> tuple[int, int]:
    """Return (tokens hit, tokens to compute) for a victim that is resumed before its blocks are handed out."""
    kv = PagedKVCacheManager(100, 16, HashPrefixCache(16) if caching else NoPrefixCache())
    request = make_request("A", num_prompt, num_output_tokens=num_outputs)
    kv.allocate_slots(request, request.num_tokens - 1)
    request.num_computed_tokens = computed_before(num_prompt, num_outputs)
    if preempt_first:
        request.preempt()
    phase3.preempt(request, FCFSRequestQueue(), kv)
    num_hit = 16 * len(kv.get_computed_blocks(request))
    return num_hit, request.num_tokens - num_hit


@contextmanager
def _changed(change: str) -> Iterator[None]:
    """Change the reference temporarily, in a way that a learner might try."""
    serve_running = phase1._serve_running

    def serve_and_admit_always(*args: Any) -> bool:
        serve_running(*args)
        return True

    def least_computed(running: list[Request], policy: Policy) -> Request:
        return min(running, key=lambda request: request.num_computed_tokens)

    patches = {
        "admit always": (phase1, "_serve_running", serve_and_admit_always),
        "least computed": (phase3, "choose_victim", least_computed),
    }
    with patch.object(*patches[change]) if change else nullcontext():
        yield


def preemptions(phases: str, num_gpu_blocks: int, requests: int = 8, change: str = "") -> int:
    with _changed(change):
        return sum(len(record["preempted"]) for record in trace_of(phases, num_gpu_blocks, 0, requests))


def computed(phases: str, num_gpu_blocks: int, requests: int = 8, change: str = "") -> int:
    """Return the total number of computed tokens, including those computed again."""
    with _changed(change):
        return sum(record["total"] for record in trace_of(phases, num_gpu_blocks, 0, requests))


def broken_order(num_gpu_blocks: int, seed: int, requests: int) -> list[int]:
    """Return the requests that the engine's error names if the victim is the one with the fewest computed tokens."""
    with _changed("least computed"):
        return numbers_in_error(lambda: trace_of("1-3", num_gpu_blocks, seed, requests), InvariantError)


def resumptions(phases: str, num_gpu_blocks: int) -> list[tuple[str, int, int]]:
    """Return (request, tokens computed, tokens hit) for every resumption in the trace."""
    shares = (share for record in trace_of(phases, num_gpu_blocks) for share in record["scheduled"])
    return [(share["id"], share["n"], share.get("hit", 0)) for share in shares if share["kind"] == "resumed"]
