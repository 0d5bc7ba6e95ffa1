"""Functions for the checks in phase 2's handout: the reference block pool, driven by a short script."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil
from unittest.mock import patch

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.absent import NoPrefixCache, SlotReservation
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.admission import require_servable
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.grading.plays.stand_ins import RecordingPrefixCache
from mini_vllm_labs.grading.plays.support import make_request
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase4_prefix_cache import HashPrefixCache
from tests.handouts.checks.runs import numbers_in_error

USE = re.compile(r"(\w)(?:(-)|\+(\d+)(?:@([\d,]+))?)")
Answer = list[int] | None


def _play(script: str, usable: int, size: int) -> tuple[PagedKVCacheManager, list[Answer]]:
    """Run operations: `A+12` (12 more tokens for A), `B+7@1,2` (a hit on blocks 1 and 2), `A-` (free A)."""
    kv = PagedKVCacheManager(usable + 1, size, RecordingPrefixCache())
    requests: dict[str, Request] = {}
    answers: list[Answer] = []
    for use in script.split():
        match = USE.fullmatch(use)
        assert match, use
        name, freed, num_new, hits = match.groups()
        request = requests.setdefault(name, make_request(name, 10_000))
        if freed:
            kv.free(request, request.num_computed_tokens)
            continue
        hit_blocks = [int(block_id) for block_id in hits.split(",")] if hits else []
        answers.append(kv.allocate_slots(request, int(num_new), hit_blocks))
        if answers[-1] is not None:
            request.num_computed_tokens += len(hit_blocks) * size + int(num_new)
    return kv, answers


def answers(script: str, usable: int, size: int = 4) -> list[Answer]:
    return _play(script, usable, size)[1]


def free_queue(script: str, usable: int, size: int = 4) -> list[int]:
    return _play(script, usable, size)[0].free_block_ids()


def blocks(num_tokens: int, size: int = 16) -> int:
    return len(answers(f"A+{num_tokens}", usable=10_000, size=size)[0] or ())


def decoded(num_tokens: int, size: int = 16) -> int:
    """Return how many blocks a request holds after growing one token at a time to this many tokens."""
    return sum(len(answer or ()) for answer in answers("A+1 " * num_tokens, usable=10_000, size=size))


def decodes_without_a_block(num_prompt: int, size: int = 16) -> int:
    """Return how many tokens can be decoded after the prompt before one of them needs a new block."""
    given = answers(f"A+{num_prompt} " + "A+1 " * (size + 1), usable=10_000, size=size)[1:]
    return next(index for index, answer in enumerate(given) if answer)


def admitted(kv_kind: str, num_slots: int, num_prompt: int, max_tokens: int, size: int = 16) -> int:
    """Return how many identical requests are admitted before one is refused, with `reserved` (phase 2 absent) or
    `paged` memory."""
    kv: KVCacheManager = PagedKVCacheManager(num_slots // size + 1, size, NoPrefixCache())
    if kv_kind == "reserved":
        kv = SlotReservation(num_slots, max_model_len=10_000)
    num_in = 0
    while kv.allocate_slots(make_request(str(num_in), num_prompt, max_tokens=max_tokens), num_prompt) is not None:
        num_in += 1
    return num_in


def hit_before_computing(num_tokens: int, size: int = 16) -> list[int]:
    """Return the blocks that B hits when A has the same prompt and its blocks are not yet computed."""
    kv = PagedKVCacheManager(100, size, HashPrefixCache(size))
    kv.allocate_slots(make_request("A", num_tokens), num_tokens)
    return kv.get_computed_blocks(make_request("B", num_tokens))


def refusal(num_prompt: int, max_tokens: int, usable: int, size: int = 4) -> list[int]:
    """Return the numbers in the message with which an engine refuses a request; empty if it accepts the request."""
    kv = PagedKVCacheManager(usable + 1, size, NoPrefixCache())
    request = make_request("A", num_prompt, max_tokens=max_tokens)
    one_table = partial(cdiv, b=size)
    return numbers_in_error(lambda: require_servable(request, 10_000, 10_000, kv, one_table), ValueError)


def trace_of(
    phases: str, num_gpu_blocks: int, seed: int = 0, requests: int = 8, block_size: int = 4
) -> list[StepRecord]:
    lineup = parse_lineup(",".join(f"solution:{part}" for part in phases.split(",")))
    possible, _ = make_possible(SMALL_POOL, lineup)
    config = replace(possible, num_gpu_blocks=num_gpu_blocks, block_size=block_size)
    return run_workload(make_workload(seed, requests), config, lineup)


def steps(phases: str, num_gpu_blocks: int, block_size: int = 4) -> int:
    return len(trace_of(phases, num_gpu_blocks, block_size=block_size))


def stall(phases: str, num_gpu_blocks: int, block_size: int = 4) -> list[int]:
    return numbers_in_error(lambda: trace_of(phases, num_gpu_blocks, block_size=block_size), StalledError)


@contextmanager
def _freed_head_first() -> Iterator[None]:
    tail_first = PagedKVCacheManager.free

    def free(self: PagedKVCacheManager, request: Request, num_computed_tokens: int) -> None:
        self.req_to_blocks.get(request.request_id, []).reverse()
        tail_first(self, request, 10_000)  # more tokens than there are, so that every block stays cached

    with patch.object(PagedKVCacheManager, "free", free):
        yield


def hit_tokens(num_gpu_blocks: int, requests: int, *, head_first: bool = False) -> int:
    """Return how many tokens phases 1 to 4 find in the cache if blocks are freed tail-first or head-first."""
    if head_first:
        with _freed_head_first():
            return hit_tokens(num_gpu_blocks, requests)
    return sum(
        share.get("hit", 0) for step in trace_of("1-4", num_gpu_blocks, 0, requests) for share in step["scheduled"]
    )
