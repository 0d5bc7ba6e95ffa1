"""Requests and memories for the tests of phase 5."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy

import pytest

from course.labtest.moments import varied
from course.labtest.support import make_request
from mini_vllm.core.interfaces import ChunkPolicy
from mini_vllm.core.request import Request, RequestStatus

MAX_BLOCKS = 8  # of a table that is written out


def request_in(status: RequestStatus, name: str, num_prompt: int, num_outputs: int = 0, computed: int = 0) -> Request:
    """Return a request with a given status; its own counter is 0 unless it is RUNNING."""
    request = make_request(name, num_prompt, num_output_tokens=num_outputs)
    request.status = status
    request.num_computed_tokens = computed if status is RequestStatus.RUNNING else 0
    return request


class FrozenKV:
    """A KV memory to read: block tables are given, every other block is free, nothing may be changed.

    Like the real one it returns its own tables, so that code which changes them is noticed by `contents`.
    """

    def __init__(self, block_size: int, num_blocks: int, tables: Mapping[str, Sequence[int]]) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_blocks
        self.tables = {request_id: list(table) for request_id, table in tables.items()}
        self.counts = dict(Counter(block_id for table in tables.values() for block_id in table))
        self.free_queue = [block_id for block_id in range(1, num_blocks + 1) if block_id not in self.counts]

    def contents(self) -> dict[str, object]:
        """Return a copy of all that a caller could change, by name."""
        tables = {f"block table of {request_id}": list(table) for request_id, table in self.tables.items()}
        return {**tables, "ref_counts": dict(self.counts), "free blocks": list(self.free_queue)}

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_queue)

    def block_ids(self, request_id: str) -> list[int]:
        if not isinstance(request_id, str):
            pytest.fail(
                f"kv.block_ids takes the id of a request, a text, and got a {type(request_id).__name__}. The engine "
                f"would answer with an empty list.\nHint: which attribute of a request is its id?",
                pytrace=False,
            )
        return self.tables.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return self.free_queue

    def ref_counts(self) -> dict[int, int]:
        return self.counts

    def get_computed_blocks(self, request: Request) -> list[int]:
        return pytest.fail("admits gets the hit blocks as an argument; it need not look them up", pytrace=False)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        return pytest.fail("admits only returns whether to admit; it must not allocate", pytrace=False)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        pytest.fail("admits only returns whether to admit; it must not free anything", pytrace=False)


def blocks_counted(
    policy: ChunkPolicy, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: FrozenKV
) -> tuple[int, int]:
    # A running request holds more blocks than its tokens need if it has room for drafts, so what is promised may be
    # less than nothing. Beside a request without blocks there is always something to count.
    other = request_in(RequestStatus.RUNNING, "beside", 20 * kv.block_size)

    def fewest_free(others: Sequence[Request]) -> int:
        memory = copy(kv)
        memory.free_queue = []
        while not policy.admits(request, hit_blocks, others, memory):
            memory.free_queue.append(0)
        return len(memory.free_queue)

    return fewest_free([]), fewest_free([*running, other]) - fewest_free([other])


def account_of(
    request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: FrozenKV, needed: int, promised: int
) -> str:
    """Return the situation as lines, with the sum that decides."""
    free = kv.free_block_ids()
    lines = [f"blocks of {kv.block_size} tokens"]
    for other in running:
        table = kv.block_ids(other.request_id)
        held = f"blocks {table} held" if len(table) <= MAX_BLOCKS else f"{len(table)} blocks held"
        lines.append(f"{other.request_id} runs: {other.num_tokens} tokens known, {held}")
    where = [f"{block_id} ({'free' if block_id in free else 'held by a running request'})" for block_id in hit_blocks]
    num_tokens = f"{request.num_tokens} token{'s' * (request.num_tokens > 1)}"
    lines.append(f"{request.request_id} asks: {num_tokens}, hit blocks: {', '.join(where) or 'none'}")
    lines.append(f"blocks needed {needed}, promised {promised}, free {len(free)}")
    return "\n".join(lines)


def random_memory(rng: random.Random) -> tuple[Request, list[int], list[Request], FrozenKV]:
    """Return a waiting request, its hit blocks, the running requests in any order, and the memory.

    Some of them have blocks for drafts, one or two more than their tokens need.
    """
    block_size = rng.choice([1, 2, 3, 4, 16, 32])
    num_blocks = rng.choice([rng.randint(4, 30), rng.randint(4, 30), rng.randint(60, 120)])
    is_large = num_blocks > 30
    unused = list(range(1, num_blocks + 1))
    rng.shuffle(unused)
    running: list[Request] = []
    tables: dict[str, list[int]] = {}
    for name in rng.sample(["A", "B", "C", "D", "r1", "r10", "r11", "1"], rng.randint(0, 8 if is_large else 4)):
        num_tokens = rng.randint(1, 5 * block_size)
        num_needed = -(-num_tokens // block_size)
        num_held = min(rng.choice([rng.randint(1, num_needed), num_needed + rng.randint(0, 2)]), len(unused))
        if num_held:
            other = rng.choice([[], *tables.values()])
            shared = other[: rng.randint(0, min(len(other), num_held))]
            tables[name] = shared + [unused.pop() for _ in range(num_held - len(shared))]
            computed = min(num_held * block_size, num_tokens) - (num_held * block_size >= num_tokens)
            num_outputs = rng.choice([0, rng.randint(0, num_tokens - 1)])
            running.append(
                request_in(RequestStatus.RUNNING, name, num_tokens - num_outputs, num_outputs, computed=computed)
            )
    rng.shuffle(running)
    status = rng.choice([RequestStatus.WAITING, RequestStatus.PREEMPTED])
    num_outputs = rng.randint(1, block_size) if status is RequestStatus.PREEMPTED else 0
    request = request_in(status, "W", rng.randint(1, (num_blocks if is_large else 6) * block_size), num_outputs)
    for one in (request, *running):
        varied(one, rng)
    max_num_hits = (request.num_tokens - 1) // block_size
    held = tables[rng.choice(running).request_id] if running else []
    hit_blocks = [*held[: rng.randint(0, len(held))], *rng.sample(unused, min(rng.choice([0, 1, 2, 9]), len(unused)))]
    return request, hit_blocks[:max_num_hits], running, FrozenKV(block_size, num_blocks, tables)
