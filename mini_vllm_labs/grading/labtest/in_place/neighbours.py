"""Provides phases 1 to 5 around yours in the tests' engine. This file contains no tasks.

These phases follow the contracts in `mini_vllm/core/interfaces.py` but deliberately differ from vLLM in the orders,
blocks, victims and shares that they choose. Decisions depend only on names and numbers, so that they can be recorded.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import BlockPool, ChunkPolicy, Clamp, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.core.stopping import check_stop

MAX_HIT_BLOCKS = 3


def drawn(*about: Any) -> int:
    """Return a number that looks random but depends only on the arguments, which may be numpy integers."""
    plain = [
        list(map(int, one)) if isinstance(one, list) else one if isinstance(one, str) else int(one) for one in about
    ]
    return crc32(repr(tuple(plain)).encode())


class AnyStep:
    """Replaces phase 1: schedules running requests and the front of the queue in a random order."""

    number = 0

    def schedule_step(
        self,
        running: list[Request],
        waiting: RequestQueue,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        kv: KVCacheManager,
        preemption: Preemption,
        chunks: ChunkPolicy,
    ) -> SchedulerOutput:
        self.number += 1
        plan = SchedulerOutput(max_num_batched_tokens)
        turns = [*enumerate(running), *((-number, None) for number in range(1, 4))]
        for _, turn in sorted(turns, key=lambda one: drawn(one[0], self.number)):
            is_new = turn is None
            if is_new and (not waiting or len(running) >= max_num_seqs or plan.preempted):
                continue
            request = waiting.peek_request() if turn is None else turn
            if not plan.token_budget or (request.status is RequestStatus.RUNNING) is is_new:
                continue
            hits = kv.get_computed_blocks(request) if is_new else []
            start = len(hits) * kv.block_size + (0 if is_new else request.num_computed_tokens)
            share = chunks.num_new_tokens(request, start, plan.token_budget)
            if share < 1 or (is_new and not chunks.admits(request, hits, running, kv)):
                continue
            if kv.allocate_slots(request, share, hits) is None and (
                is_new or not preemption.make_room(request, share, running, waiting, plan, kv)
            ):
                continue
            if is_new:
                running.append(waiting.pop_request())
                request.admit(start)
            plan.num_scheduled_tokens[request.request_id] = share
            plan.token_budget -= share
        return plan

    def update_from_output(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        requests: dict[str, Request],
        running: list[Request],
        *,
        max_model_len: int,
        kv: KVCacheManager,
    ) -> dict[str, list[int]]:
        """Apply the tokens, starting with the last request of the plan."""
        kept: dict[str, list[int]] = {}
        for name in reversed(scheduler_output.num_scheduled_tokens):
            if name not in requests or not sampled_token_ids.get(name):
                continue
            request, kept[name] = requests[name], []
            while not request.is_finished and len(kept[name]) < len(sampled_token_ids[name]):
                kept[name].append(sampled_token_ids[name][len(kept[name])])
                request.all_token_ids.append(kept[name][-1])
                check_stop(request, max_model_len)
            if request.is_finished:
                kv.free(request, request.num_computed_tokens)
                running[:] = [other for other in running if other is not request]
        return kept


class AnyMemory:
    """Replaces phase 2: allocates arbitrary free blocks, frees a table's first block first, and ignores some of the
    last hits."""

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: Any) -> None:
        self.block_size = block_size
        self.prefix_cache = prefix_cache
        self.blocks = list(range(1, num_gpu_blocks))
        self.num_usable_blocks = len(self.blocks)
        self.holders: Counter[int] = Counter()
        self.tables: dict[str, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_block_ids())

    def touch(self, block_id: int) -> None:
        self.holders[block_id] += 1

    def get_computed_blocks(self, request: Request) -> list[int]:
        found: list[int] = self.prefix_cache.find_longest_cache_hit(request)
        return found[:-1] if drawn(request.request_id, len(found)) % 3 == 1 else found

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        name, size = request.request_id, self.block_size
        start = request.num_computed_tokens + size * len(hit_blocks)
        end = start + num_new_tokens
        others = [block_id for block_id in self.free_block_ids() if block_id not in hit_blocks]
        missing = max(0, cdiv(end + num_lookahead_tokens, size) - len(self.tables.get(name, hit_blocks)))
        if missing > len(others):
            return None
        if name not in self.tables:
            self.tables[name] = list(hit_blocks)
            self.prefix_cache.pin(request, hit_blocks, self)
        taken = [others.pop(drawn(name, end, left) % len(others)) for left in range(missing)]
        for block_id in taken:
            self.prefix_cache.evict(block_id)
            self.touch(block_id)
        self.tables[name] = self.tables[name] + taken
        full = min(end, request.num_tokens) // size
        if start // size < full:
            self.prefix_cache.cache_full_blocks(request, self.tables[name], start // size, full)
        return taken

    def free(self, request: Request, num_computed_tokens: int) -> None:
        held = self.tables.pop(request.request_id, [])
        num_full_blocks = int(num_computed_tokens) // self.block_size
        self.prefix_cache.drop_uncomputed(held[num_full_blocks:])
        self.holders.subtract(held)
        self.blocks = [block_id for block_id in self.blocks if block_id not in held] + held

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return [block_id for block_id in self.blocks if not self.holders[block_id]]

    def ref_counts(self) -> dict[int, int]:
        return {block_id: count for block_id, count in sorted(self.holders.items()) if count}


class AnyVictim:
    """Replaces phase 3: preempts arbitrary running requests and puts them at the end of the queue."""

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        if drawn(request.request_id, request.num_tokens, len(running)) % 5 == 0:
            return False  # returned although the request is still running; phase 3's contract allows this
        for victim in sorted(running, key=lambda one: drawn(one.request_id, one.num_preemptions)):
            kv.free(victim, victim.num_computed_tokens)
            running.remove(victim)
            victim.preempt()
            waiting.add_request(victim)
            name, plan = victim.request_id, scheduler_output
            share = plan.num_scheduled_tokens.pop(name, 0)
            plan.token_budget += share
            plan.preempted.append(Preempted(name, request.request_id, share))
            if victim is request or kv.allocate_slots(request, num_new_tokens) is not None:
                return victim is not request
        return False


class AnyCache:
    """Replaces phase 4: finds at most three blocks of a prefix; among identical blocks it picks the one cached last."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.content: dict[int, object] = {}

    def update_block_hashes(self, request: Request) -> None:
        for number in range(len(request.block_hashes), request.num_tokens // self.block_size):
            request.block_hashes.append(bytes([number % 256]))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        latest = {content: block_id for block_id, content in self.content.items()}
        most = min(MAX_HIT_BLOCKS, (request.num_tokens - 1) // self.block_size)
        found = [latest.get(self._prefix(request, number)) for number in range(1, most + 1)]
        return [block_id for block_id in (*found, None)[: (*found, None).index(None)] if block_id]

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        for number in range(num_full_blocks, num_cached_blocks, -1):
            self.content[block_ids[number - 1]] = self._prefix(request, number)

    def evict(self, block_id: int) -> bool:
        return self.content.pop(block_id, None) is not None

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.content = {block_id: one for block_id, one in self.content.items() if block_id not in block_ids}

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: repr(one).encode() for block_id, one in self.content.items()}

    def hit_rate(self) -> float:
        return 0.0

    def _prefix(self, request: Request, num_blocks: int) -> object:
        return request.cache_salt, request.adapter_id, tuple(request.all_token_ids[: num_blocks * self.block_size])


class AnyShare:
    """Replaces phase 5: draws shares, some of them 0, delays some requests, and sometimes samples too early."""

    def __init__(self, clamp: Clamp, budget: int) -> None:
        self.clamp = clamp
        self.budget = budget

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        number = drawn(request.request_id, num_computed_tokens, token_budget)
        if number % 7 == 0 and token_budget < self.budget:
            return 0
        threshold = number % 13 if number % 2 else 0
        return self.clamp(request.num_tokens - num_computed_tokens, token_budget, threshold)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return not running or drawn(request.request_id, len(running), kv.num_free_blocks) % 4 > 0

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return num_computed_tokens + drawn(request.num_tokens, request.request_id) % 3 >= request.num_tokens
