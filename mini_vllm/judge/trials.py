"""Random questions to single functions of a phase: what goes in, and what the reference makes of it."""

import importlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from mini_vllm.judge.link.drivers import DRIVERS, CommitLog
from mini_vllm.judge.worker import lab_folder
from mini_vllm.request import Request, RequestStatus
from mini_vllm.sampling_params import SamplingParams

MOST_CASES = 60


def same(expected: Any, found: Any) -> bool:
    """Return whether two plain values are equal; a tuple is as good as a list, True as good as 1."""
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)


@dataclass(frozen=True)
class Trial:
    """One question: a driver, its arguments, the right answer, and when an answer equals it."""

    phase: int
    driver: str
    arguments: tuple[Any, ...]
    expected: list[Any]
    equal: Callable[[Any, Any], bool] = same


def trial(phase: int, driver: str, *arguments: Any, equal: Callable[[Any, Any], bool] = same) -> Trial:
    """Ask the reference and return the question with its answer."""
    reference = importlib.import_module(f"solutions.{lab_folder(phase)}")
    return Trial(phase, driver, arguments, DRIVERS[driver](reference, *deepcopy(arguments)), equal)


def clamp_cases(rng: Random) -> Trial:
    """Tokens, budget and threshold, small ones and equal ones among them."""
    cases = [(rng.randrange(0, 40), rng.randrange(0, 40), rng.choice((0, rng.randrange(1, 40)))) for _ in range(20)]
    number = rng.randrange(1, 30)
    return trial(1, "clamp", [*cases, (number, number, number), (number, number - 1, number), (number, 0, 0)])


def free_queue_operations(rng: Random) -> Trial:
    """Takes from the front, puts at the back, removes from anywhere, now and then what cannot be."""
    num_blocks = rng.randrange(3, 9)
    inside, outside = list(range(1, num_blocks)), list[int]()
    operations: list[tuple[Any, ...]] = []
    for _ in range(MOST_CASES):
        name = rng.choice(("popleft", "popleft", "append", "append", "remove"))
        if name == "popleft":
            outside += inside[:1]
            del inside[:1]
            operations.append((name,))
        elif name == "append" and outside:
            block = outside.pop(rng.randrange(len(outside)))
            inside.append(block)
            operations.append((name, block))
        elif name == "remove":
            block = rng.randrange(1, num_blocks)
            if block in inside:
                inside.remove(block)
                outside.append(block)
            operations.append((name, block))
    return trial(2, "free_queue", num_blocks, operations)


def pool_operations(rng: Random) -> Trial:
    """Blocks handed out, given a second holder, and freed in some order."""
    num_blocks = rng.randrange(4, 12)
    holders = dict.fromkeys(range(1, num_blocks), 0)
    operations: list[tuple[str, Any]] = []
    free = list(holders)
    for _ in range(MOST_CASES):
        held = [block for block, count in holders.items() if count]
        name = rng.choice(("get_new_blocks", "touch", "free_blocks", "free_blocks"))
        if name == "get_new_blocks":
            count = rng.randrange(0, len(free) + 1)
            operations.append((name, count))
            for block in free[:count]:
                holders[block] = 1
            del free[:count]
        elif name == "touch":
            block = rng.randrange(1, num_blocks)
            holders[block] += 1
            if block in free:
                free.remove(block)
            operations.append((name, block))
        elif held:
            freed = rng.sample(held, rng.randrange(1, len(held) + 1))
            for block in freed:
                holders[block] -= 1
                if not holders[block]:
                    free.append(block)
            operations.append((name, freed))
    operations.append(("get_new_blocks", len(free)))
    return trial(2, "block_pool", num_blocks, operations)


def manager_operations(rng: Random) -> Trial:
    """Requests that get memory, with hits and look-ahead, are refused, and give it back."""
    num_blocks, block_size = rng.randrange(5, 12), rng.choice((1, 2, 3, 4))
    requests = [Request(f"r{number}", [number] * rng.randrange(1, 16)) for number in range(5)]
    manager = importlib.import_module(f"solutions.{lab_folder(2)}").PagedKVCacheManager(
        num_blocks, block_size, CommitLog()
    )
    computed, operations = dict.fromkeys(range(5), 0), list[tuple[Any, ...]]()
    for _ in range(MOST_CASES):
        number = rng.randrange(5)
        request, table = requests[number], manager.block_ids(f"r{number}")
        if table and rng.random() < 0.3:
            operations.append(("free", number, rng.choice((computed[number], computed[number] // 2))))
            request.num_computed_tokens, computed[number] = operations[-1][2], 0
            manager.free(request)
            continue
        other = rng.choice([manager.block_ids(f"r{other}") for other in range(5)] + [manager.free_block_ids()])
        hits = other[: rng.randrange(0, 3)] if not computed[number] and len(request.all_token_ids) > block_size else []
        hits = hits[: (len(request.all_token_ids) - 1) // block_size]
        start = computed[number] + len(hits) * block_size
        count = rng.randrange(1, max(2, len(request.all_token_ids) - start + 2))
        operations.append(("allocate", number, computed[number], count, hits, rng.choice((0, 0, 0, 1, 5))))
        request.num_computed_tokens = computed[number]
        if manager.allocate_slots(request, count, hits, operations[-1][-1]) is not None:
            computed[number] = start + count
    return trial(2, "block_tables", num_blocks, block_size, [list(r.all_token_ids) for r in requests], operations)


def update_cases(rng: Random) -> Trial:
    """Steps with one or several new tokens for each request, in another order than that of the running ones."""
    return trial(1, "update_from_output", rng.randrange(6, 12), [update_case(rng) for _ in range(6)])


def update_case(rng: Random) -> tuple[list[Request], list[int], dict[str, list[int]], list[int]]:
    """Six running requests, who is planned, what is sampled, and who is gone meanwhile."""
    requests = []
    for number in range(6):
        stops = tuple(rng.sample(range(8), rng.randrange(4)))
        params = SamplingParams(max_tokens=rng.randrange(1, 6), stop_token_ids=stops, ignore_eos=rng.random() < 0.5)
        request = Request(f"r{number}", [9] * rng.randrange(1, 6), params, eos_token_ids=frozenset((1,)))
        request.status = RequestStatus.RUNNING
        requests.append(request)
    planned = rng.sample(range(6), rng.randrange(3, 7))
    sampled = {f"r{n}": [rng.randrange(8) for _ in range(rng.randrange(0, 4))] for n in planned if rng.random() < 0.9}
    return requests, planned, sampled, rng.sample(range(6), rng.randrange(2))


def some_requests(rng: Random, num_requests: int) -> list[Request]:
    """Requests with few priorities and few arrival times, so that there are ties."""
    names = rng.sample([f"r{number}" for number in range(30)], num_requests)
    return [Request(name, [1], priority=rng.randrange(-1, 3), arrival_time=float(rng.randrange(4))) for name in names]


def priority_queue_operations(rng: Random) -> Trial:
    """Requests that come, come back, are looked at, taken and removed."""
    requests = some_requests(rng, 10)
    inside, operations = set[int](), list[tuple[Any, ...]]()
    for _ in range(MOST_CASES):
        outside = sorted(set(range(len(requests))) - inside)
        name = rng.choice(("add_request", "add_request", "prepend_request", "peek_request", "pop_request", "remove"))
        if name in ("add_request", "prepend_request") and outside:
            number = rng.choice(outside)
            inside.add(number)
            operations.append((name, number))
        elif name == "remove" and inside:
            number = rng.choice(sorted(inside))
            inside.remove(number)
            operations.append(("remove_request", number))
        elif name in ("peek_request", "pop_request") and inside:
            operations.append((name,))
            if name == "pop_request":
                inside.remove(min(inside, key=lambda number: place_of(requests[number])))
    return trial(3, "priority_queue", requests, operations)


def place_of(request: Request) -> tuple[int, float, str]:
    """Return what the priority queue sorts by, as phase 3's handout says."""
    return request.priority, request.arrival_time, request.request_id


def victim_cases(rng: Random) -> Trial:
    """Running lists of some requests under both policies."""
    cases = [(some_requests(rng, rng.randrange(1, 7)), rng.choice(("fcfs", "priority", "priority"))) for _ in range(12)]
    return trial(3, "choose_victim", cases)


def hash_cases(rng: Random) -> Trial:
    """Blocks that agree and blocks that nearly agree: in tokens, order, parent or extra keys."""
    one, two, three = (rng.randrange(1, 10) for _ in range(3))
    rest = [rng.randrange(300) for _ in range(rng.randrange(3))]
    base, moved = [one * 10 + two, three, *rest], [one, two * 10 + three, *rest]  # 12, 3 and 1, 23
    swapped = base[::-1]
    keys = (["a", None], [None, "a"], ["b", None], ["a", "b"], ["ab", None])
    cases: list[tuple[int | None, list[int], list[str | None]]] = [(None, base, []), (None, base, [])]
    for number in range(2, 20):
        tokens = list(rng.choice((base, base, swapped, moved, [*base[:-1], base[-1] + 1])))
        parent = rng.choice((None, rng.randrange(number)))
        cases.append((parent, tokens, list(rng.choice(keys)) if parent is None and rng.random() < 0.5 else []))
    return trial(4, "hash_block", cases)


def cap_cases(rng: Random) -> Trial:
    """Requests that wait, run or were preempted, at all distances from the caps."""
    max_model_len = rng.randrange(12, 40)
    settings = [rng.choice((0, rng.randrange(1, 12))), max_model_len, rng.random() < 0.6]
    cases = []
    for _ in range(MOST_CASES):
        tokens = [7] * rng.choice((max_model_len, max_model_len - 1, rng.randrange(1, max_model_len)))
        request = Request("r", tokens)
        request.status = rng.choice((RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED))
        computed = rng.choice((len(tokens) - 1, rng.randrange(len(tokens))))
        if request.status is RequestStatus.RUNNING:  # who waits has computed nothing: `computed` is its hit
            request.num_computed_tokens = computed
        wanted = len(tokens) - computed
        cases.append((request, computed, rng.choice((rng.randrange(1, 24), wanted, max(1, wanted - 1)))))
    return trial(5, "num_new_tokens", settings, cases)


def batch_rows(rng: Random) -> Trial:
    from mini_vllm.judge import tensor_trials

    return tensor_trials.rows(rng)


def batch_places(rng: Random) -> Trial:
    from mini_vllm.judge import tensor_trials

    return tensor_trials.places(rng)


def kv_writes(rng: Random) -> Trial:
    from mini_vllm.judge import tensor_trials

    return tensor_trials.kv_writes(rng)


def attentions(rng: Random) -> Trial:
    from mini_vllm.judge import tensor_trials

    return tensor_trials.attentions(rng)


def samples(rng: Random) -> Trial:
    from mini_vllm.judge import tensor_trials

    return tensor_trials.samples(rng)


def memory_cases(rng: Random) -> Trial:
    """Models and memories of all sizes, some too small for two blocks."""
    cases: list[tuple[str, list[Any]]] = []
    for _ in range(10):
        sizes = [rng.randrange(1, 40), rng.choice((4, 8, 16, 32)), rng.randrange(1, 9), rng.choice((8, 64, 128))]
        cases.append(("kv_block_bytes", [*sizes, rng.choice((2, 4))]))
        total, block = rng.randrange(10**6, 10**9), rng.randrange(10**3, 10**6)
        cases.append(("num_blocks_that_fit", [total, rng.randrange(total), rng.choice((0.5, 0.75, 0.875, 1.0)), block]))
    return trial(6, "kv_memory", cases)
