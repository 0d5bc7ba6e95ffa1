"""Runs phase 2's cases for the graded tests and the judge, call by call, one function per kind of case."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from types import ModuleType
from typing import Any, ClassVar

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm_labs.grading.plays.stand_ins import RecordingPrefixCache
from mini_vllm_labs.grading.plays.support import changed, fields_of, ids, make_request, numbers, some_ids, with_a_past
from mini_vllm_labs.grading.plays.work import LONG, ROOM, SHORT, left_behind, work_of

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, followed by observations
Ints = Sequence[int]
ALLOCATE = re.compile(r"(\S+) (\d+)(?: hits ([\d -]+?))?(?: lookahead (\d+))?(?: keeps (\d+))?(?: x(\d+))?")
NUM_RANDOM = 200
LATEST_STATUS = (RequestStatus.PREEMPTED, RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_ABORTED)


def outcome(call: Callable[[], object], *, is_legal: bool) -> object:
    """Make a call; if the rules forbid it, report whether it raises `ValueError`."""
    if is_legal:
        return call()
    try:
        return f"no error; returned {call()}"
    except ValueError:
        return "ValueError"


def queue(phase2: ModuleType, free: Ints | int, calls: Sequence[str]) -> Steps:
    """Make calls to a free queue; report each answer and the remaining blocks.

    `free` is a list of blocks or a number of blocks; a number queues the blocks from last to first. Calls such as
    "append 5" and "remove 5" name a block. The call "put back" appends the block that was popped or removed first.
    """
    free = range(free, 0, -1) if isinstance(free, int) else free
    blocks = {number: KVCacheBlock(number) for number in free}
    inside, out = set(free), list[int]()
    yield f"FreeKVCacheBlockQueue(blocks {shown(free)})"
    queue = phase2.FreeKVCacheBlockQueue([*blocks.values()])
    yield queue_state(queue)
    for call in calls:
        what, _, given = call.partition(" ")
        number = int(given) if given.isdecimal() else (out or [0])[0]
        block = blocks.setdefault(number, KVCacheBlock(number))
        seen: Seen = {}
        if what == "another":
            yield "another queue is made of the blocks 91 to 93: popleft() and append(91) there"
            another = type(queue)([KVCacheBlock(one) for one in (91, 92, 93)])
            another.append(another.popleft())
        elif what == "popleft":
            yield "popleft()"
            answer = outcome(lambda: int(queue.popleft().block_id), is_legal=bool(inside))
            seen, number = {"popleft": answer}, answer if isinstance(answer, int) else 0
        elif what == "remove":
            yield f"remove({number})"
            answer = outcome(partial(queue.remove, block), is_legal=number in inside)
            seen = {} if number in inside else {"remove": answer}
        elif number:
            yield f"append({number})"
            queue.append(block)
            inside, out = inside | {number}, [one for one in out if one != number]
        if what in ("popleft", "remove") and number in inside:
            inside, out = inside - {number}, [*out, number]
        yield seen | queue_state(queue)


def queue_state(queue: Any) -> Seen:
    return {"block_ids()": ids(queue.block_ids()), "num_free_blocks": int(queue.num_free_blocks)}


def shown(numbers: Ints) -> str:
    return str([*numbers]) if len(numbers) < 99 else f"[{numbers[0]}, ..., {numbers[-1]}]"


def pool(phase2: ModuleType, num_gpu_blocks: int, calls: Sequence[str]) -> Steps:
    """Make calls to a block pool; report the allocated blocks and the calls to the prefix cache.

    Calls: "get 2", "touch 3 1", "touch 2 x70000", "free 3 1 x2". The call "get all" gets all blocks that are free
    according to the answers. The call "release 4" frees entry 4 of the list of held blocks, which contains a block once
    per holder.
    """
    cache, holders = RecordingPrefixCache(), list[int]()
    yield f"BlockPool({num_gpu_blocks} blocks, block 0 is the null block)"
    pool = phase2.BlockPool(num_gpu_blocks, cache)
    yield {"cache calls": cache.take_calls()}
    for call in calls:
        call, _, times = call.partition(" x")
        what, *given = call.split()
        numbers = [int(one) for one in given if one.isdecimal()]
        seen: Seen = {}
        if what == "another":
            yield "another pool of 4 blocks is made: get_new_blocks(2), touch(1), free_blocks([2]) there"
            another = type(pool)(4, RecordingPrefixCache())
            another.get_new_blocks(2)
            another.touch(1)
            another.free_blocks([2])
        elif what == "get":
            num_free = num_gpu_blocks - 1 - len(set(holders))
            number = min([num_free, *numbers])
            yield f"get_new_blocks({number})"
            answer = ids(pool.get_new_blocks(number))
            holders += answer if isinstance(answer, list) else []
            seen = {"get_new_blocks": answer}
        elif what == "touch":
            yield f"touch({numbers[0]})" if len(numbers) == 1 and not times else f"{call}, each {times or 1} times"
            for number in numbers * int(times or 1):
                pool.touch(number)
                holders.append(number)
        else:
            freed = [holders[number % len(holders)] for number in numbers if holders]
            freed = [*dict.fromkeys(freed)] if what == "release" else numbers * int(times or 1)
            yield f"free_blocks({freed if len(freed) < 99 else f'{numbers}, each {times} times'})"
            left = Counter(freed)
            is_legal = left <= Counter(holders)
            released = [*freed]
            answer = outcome(partial(pool.free_blocks, released), is_legal=is_legal)
            seen = {} if is_legal else {"free_blocks": answer}
            seen["block_ids"] = "as before" if released == freed else f"changed to {released}"
            if is_legal:
                holders, before = [], holders  # without each block's first holders, which take seconds to remove singly
                for number in before:
                    if left[number]:
                        left[number] -= 1
                    else:
                        holders.append(number)
        yield seen | {"cache calls": cache.take_calls()}


def allocations(
    phase2: ModuleType, num_usable: int, block_size: int, tokens: Mapping[str, int], calls: Sequence[str], past: int = 0
) -> Steps:
    """Make task 2.3's calls to a KV cache manager; report the answer, all tables, and the prefix cache's calls.

    The call "A 13 hits 2 3 lookahead 1" allocates slots for 13 tokens of A, with hits if A has no table yet. If the
    call ends with "keeps 4", only 4 of the tokens then count as computed. The call "A 1 x99" makes 99 calls and reports
    the last. "look A 5 2" looks for a hit if the prefix cache has these blocks. `past` seeds the fields that requests
    carry over from earlier steps.
    """
    yield from Serving(phase2, num_usable, block_size, tokens, past, with_free=False).play(calls)


def manager(
    phase2: ModuleType, num_usable: int, block_size: int, tokens: Mapping[str, int], calls: Sequence[str], past: int = 0
) -> Steps:
    """Make calls as in `allocations`; also report the free queue, the reference counts and the usage.

    "free A at 7" frees A with 7 computed tokens, and "free A" with the number counted so far.
    """
    yield from Serving(phase2, num_usable, block_size, tokens, past, with_free=True).play(calls)


class Serving:
    """A KV cache manager, created at the start of the case, and the requests that it serves."""

    kv: Any

    def __init__(
        self,
        phase2: ModuleType,
        num_usable: int,
        block_size: int,
        tokens: Mapping[str, int],
        past: int,
        *,
        with_free: bool,
    ) -> None:
        self.phase2, self.num_usable, self.block_size, self.with_free = phase2, num_usable, block_size, with_free
        self.rng, self.cache, self.admitted = Random(past), RecordingPrefixCache(), set[str]()
        self.requests = {name: make_request(name, number) for name, number in tokens.items()}
        for request in self.requests.values():
            if past:
                with_a_past(self.rng, request)
                request.status = RequestStatus.PREEMPTED if request.num_preemptions else RequestStatus.WAITING
            request.block_hashes.append(b"phase 4's")

    def play(self, calls: Sequence[str]) -> Steps:
        yield f"PagedKVCacheManager: {self.num_usable} usable blocks of {self.block_size} tokens, and the null block"
        self.kv = self.phase2.PagedKVCacheManager(self.num_usable + 1, self.block_size, self.cache)
        yield {name: int(getattr(self.kv, name)) for name in ("block_size", "num_usable_blocks")} | self.state()
        for call in calls:
            what, *given = call.split()
            if what == "another":
                yield "another manager of 3 usable blocks is made: allocate_slots(A, 3) and free(A, 0) there"
                self.use_another()
            elif what == "look":
                yield from self.look(*given)
            elif what == "free":
                yield from self.free(given[0], int(given[2]) if len(given) > 1 else None)
            else:
                yield from self.allocate(call)

    def allocate(self, call: str) -> Steps:
        """Allocate slots; on success count the hits and the new tokens as computed, as a scheduler would."""
        match = ALLOCATE.fullmatch(call)
        assert match, call
        name, num_new, hits, lookahead, keeps, times = match.groups()
        request, given = self.requests[name], [] if name in self.admitted else numbers(hits or "")
        told = f"{name}, {num_new}" + f", hit_blocks={given}" * bool(given)
        told += f", num_lookahead_tokens={lookahead}" if lookahead else ""
        extra = {"num_lookahead_tokens": int(lookahead)} if lookahead else {}
        for time in range(int(times or 1)):
            hit_blocks = (list if len(given) % 2 else tuple)(given)
            if not time:
                yield (
                    f"allocate_slots({told})   {name}: {request.num_computed_tokens} computed of {request.num_tokens} "
                    f"tokens{f', and so on, {times} times' if times else ''}"
                )
            before = fields_of(request)
            answer = self.kv.allocate_slots(request, int(num_new), hit_blocks, **extra)
            arguments = changed(request, before) if [*hit_blocks] == given else f"hit_blocks is now {hit_blocks}"
            if answer is not None:
                self.admitted.add(name)
                request.num_computed_tokens += len(given) * self.block_size + int(keeps or num_new)
                given = []
            while request.num_tokens <= request.num_computed_tokens:
                request.all_token_ids.append(7)
        yield {"allocate_slots": ids(answer), "arguments": arguments} | self.state()

    def free(self, name: str, computed: int | None) -> Steps:
        """Free a request whose own counter differs from the argument; its next allocation is an admission."""
        request = self.requests[name]
        computed = request.num_computed_tokens if computed is None else computed
        request.status = self.rng.choice(LATEST_STATUS)
        request.num_computed_tokens = computed + self.block_size if computed % 2 else 0
        yield (
            f"free({name}, num_computed_tokens={computed})   {name}: {request.status.name}, its own counter is "
            f"{request.num_computed_tokens}"
        )
        before = fields_of(request)
        self.kv.free(request, computed)
        yield {"arguments": changed(request, before)} | self.state()
        request.num_computed_tokens = 0
        self.admitted.discard(name)

    def look(self, name: str, *cached: str) -> Steps:
        self.cache.hits[name] = list(map(int, cached))
        request = self.requests[name]
        yield f"get_computed_blocks({name})   the prefix cache finds {self.cache.hits[name]} now"
        before = fields_of(request)
        found = self.kv.get_computed_blocks(request)
        seen: Seen = {"get_computed_blocks": ids(found), "arguments": changed(request, before)}
        yield seen | self.state()

    def use_another(self) -> None:
        """Make a second manager and serve a request with a known name, to reveal state kept on the class."""
        another, request = type(self.kv)(4, 2, RecordingPrefixCache()), make_request("A", 3)
        another.allocate_slots(request, 3)
        another.free(request, 0)

    def state(self) -> Seen:
        """Return the manager's state, some of it only from task 2.4 on, and its calls to the prefix cache."""
        tables = {name: ids(self.kv.block_ids(name)) for name in self.requests}
        seen: Seen = {
            "block tables": {name: table for name, table in tables.items() if table},
            "num_free_blocks": int(self.kv.num_free_blocks),
            "cache calls": self.cache.take_calls(),
        }
        if self.with_free:
            counts = self.kv.ref_counts()
            seen["free_block_ids"] = ids(self.kv.free_block_ids())
            seen["ref_counts"] = [f"{block_id}: {counts[block_id]}" for block_id in sorted(counts)]
            seen["usage"] = round(float(self.kv.usage), 6)
        return seen


class CountedBlock(KVCacheBlock):
    """A block class that counts each read, change, comparison and hash of its blocks."""

    looks: ClassVar[list[int]] = [0]

    def __getattribute__(self, name: str) -> object:
        object.__getattribute__(self, "looks")[0] += 1
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        object.__getattribute__(self, "looks")[0] += 1
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        object.__getattribute__(self, "looks")[0] += 1
        return self is other

    def __hash__(self) -> int:
        object.__getattribute__(self, "looks")[0] += 1
        return object.__hash__(self)


def work(phase2: ModuleType, call: str, things: str) -> Steps:
    """Make a call among few objects, then among many; report whether the latter takes more lines, copies and block
    reads.

    The better result of two large sizes is used, because a growing dict or list may occasionally copy itself.
    """
    few, *many = (_work_among(phase2, call, things, number) for number in (SHORT, LONG, LONG + 150))
    yield f"{call} among {SHORT} and {LONG} {things}: lines run, blocks looked at, lists copied: {few} and {min(many)}"
    yield {f"does more with many {things}": min(many) > 2 * few + ROOM}


def _work_among(phase2: ModuleType, call: str, things: str, number: int) -> int:
    known, phase2.KVCacheBlock = getattr(phase2, "KVCacheBlock", None), CountedBlock  # type: ignore[attr-defined]
    try:
        act = _prepared(phase2, call, number, number if things == "other requests" else 0)
        before = CountedBlock.looks[0]
        return work_of(act, str(phase2.__file__)) + CountedBlock.looks[0] - before
    finally:
        phase2.KVCacheBlock = known  # type: ignore[attr-defined]


def _prepared(phase2: ModuleType, call: str, number: int, num_others: int) -> Callable[[], object]:
    """Prepare a call among `number` free blocks, or on a manager that serves `num_others` more requests."""
    name = call.partition(" ")[0]
    if name in ("append", "remove", "popleft"):
        blocks = [phase2.KVCacheBlock(block_id) for block_id in range(number + 1)]
        queue = phase2.FreeKVCacheBlockQueue(blocks[:-1])
        given = {"append": blocks[-1:], "remove": blocks[number // 2 : number // 2 + 1]}.get(name, [])
        return partial(getattr(queue, name), *given)
    if name in ("touch", "get_new_blocks", "free_blocks"):
        pool = phase2.BlockPool(number + 1, RecordingPrefixCache())
        pool.get_new_blocks(1)
        return partial(getattr(pool, name), {"touch of a free block": number // 2, "free_blocks": [1]}.get(call, 1))
    kv = phase2.PagedKVCacheManager(20 + number, 4, RecordingPrefixCache())
    request, newcomer = make_request("A", 40), make_request("B", 40)
    kv.allocate_slots(request, 6)
    request.num_computed_tokens = 6
    for other in range(num_others):
        kv.allocate_slots(make_request(f"other {other}", 1), 1)
    return {
        "allocate_slots with one new block": lambda: kv.allocate_slots(request, 3),
        "allocate_slots with room in the last block": lambda: kv.allocate_slots(request, 1),
        "allocate_slots at an admission": lambda: kv.allocate_slots(newcomer, 9, [1, 7]),
        "num_free_blocks": lambda: kv.num_free_blocks,
        "free": lambda: kv.free(request, 6),
        "free of a request without blocks": lambda: kv.free(newcomer, 0),
        "block_ids": lambda: kv.block_ids("A"),
    }[call]


def leaves(phase2: ModuleType, num_requests: int) -> Seen:
    """Start and end requests; report what they leave behind."""
    kv = phase2.PagedKVCacheManager(10, 4, RecordingPrefixCache())

    def use(name: str) -> Request:
        request = make_request(name, 9)
        kv.get_computed_blocks(request)
        kv.allocate_slots(request, 5)
        kv.free(request, 5)
        return request

    return left_behind(phase2, use, kv, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task, sometimes with hundreds of blocks."""
    many, another = 30 if rng.random() < 0.05 else 1, ["another"] * (rng.random() < 0.1)
    if task == 1:
        free = rng.sample(range(1, 20 * many), rng.randint(0, 6) * many)
        names = ("popleft", "put back", "put back", *(f"remove {rng.choice(free or [1])}" for _ in range(6)))
        return free, [*rng.choices(names, k=rng.randint(4, 14) * many), *another, "popleft"]
    if task == 2:
        num_blocks = rng.randint(3, 10) * many
        calls = [_random_call(rng, num_blocks) for _ in range(rng.randint(3, 12) * many)]
        return num_blocks, [*calls, *another, "release 0 1 2", "get all"]
    block_size, is_large = rng.choice((1, 2, 4, 16)), many > 1
    num_usable, num_calls = (rng.randint(100, 200), 45) if is_large else (rng.randint(3, 12), rng.randint(4, 12))
    served, most = some_ids(rng, 8 if is_large else 4), 50 * block_size if is_large else 4 * block_size + 3
    tokens = {name: rng.randint(8 * block_size if is_large else 1, most) for name in served}
    calls = [_random_use(rng, rng.choice(served), tokens, num_usable, block_size, task) for _ in range(num_calls)]
    return num_usable, block_size, tokens, [*calls, *another * (task == 4)], rng.randrange(1, 10**6)


def _random_call(rng: Random, num_blocks: int) -> str:
    released = " ".join(str(rng.randrange(99)) for _ in range(rng.randint(1, 4)))
    return rng.choice((f"get {rng.randrange(4)}", f"touch {rng.randrange(1, num_blocks)}", f"release {released}"))


def _random_use(rng: Random, name: str, tokens: Mapping[str, int], num_usable: int, block_size: int, task: int) -> str:
    if task == 4 and rng.random() < 0.3:
        return f"free {name}"
    if rng.random() < 0.1:
        return f"look {name} {' '.join(str(rng.randint(1, num_usable)) for _ in range(rng.randrange(3)))}"
    num_hits = min(rng.choice((0, 1, 2, 3, 7 * (num_usable > 50))), (tokens[name] - 1) // block_size, num_usable)
    hits = rng.sample(range(1, min(num_usable, 45) + 1), num_hits)  # all requests share the first of many blocks
    most = tokens[name] - num_hits * block_size
    num_new = min(most, rng.choice((1, 1, 1, 2, block_size, block_size + 1, rng.randint(1, most))))
    told = f"{name} {num_new}" + f" hits {' '.join(map(str, hits))}" * bool(hits)
    told += rng.choice(("", "", "", " lookahead 1", " lookahead 3", " lookahead 20"))
    return told + rng.choice(("", "", "", f" keeps {num_new - 1}", " keeps 0"))
