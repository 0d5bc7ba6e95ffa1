"""Questions to phase 5: the caps, sampling, admission."""

from functools import cache
from random import Random
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script, reference
from classroom.worker.doubles import ClampTable, Memory
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus

MAX_NUMBER = 48


@cache
def clamp_table() -> ClampTable:
    """Return phase 1's `clamp` as its values: nothing that answers a question of phase 1 lies in the jail."""
    clamp, numbers = reference(1).clamp, range(MAX_NUMBER)
    answers = bytes(clamp(num_new, budget, cap) for num_new in numbers for budget in numbers for cap in numbers)
    return ClampTable(MAX_NUMBER, answers)


def policy(script: Script, settings: list[Any]) -> Any:
    """Return a chunk policy of a script, with these settings after `clamp`."""
    return script.new("ChunkedPrefillPolicy", clamp_table(), *settings)


def cap_cases(rng: Random) -> JudgeQuestion:
    """Several policies, and requests that wait, run or were preempted, at all distances from the caps."""
    script = Script(5)
    settings = [cap_settings(rng, is_chunking) for is_chunking in (True, True, False, False)]
    policies = [policy(script, one) for one in settings]
    for made, one in zip(policies, settings, strict=True):
        for _ in range(20):
            made.num_new_tokens(*cap_case(rng, one))
    return script.question()


def cap_settings(rng: Random, is_chunking: bool) -> list[Any]:
    return [rng.choice((0, rng.randrange(1, 12))), rng.randrange(12, 40), is_chunking]


def cap_case(rng: Random, settings: list[Any]) -> tuple[Request, int, int]:
    """A request with some output tokens, its computed tokens, and a budget near the tokens wanted."""
    threshold, max_model_len, _ = settings
    num_tokens = rng.choice((max_model_len, max_model_len - 1, rng.randrange(1, max_model_len)))
    request = Request("r", [7] * rng.randrange(1, num_tokens + 1))
    request.all_token_ids.extend([8] * (num_tokens - len(request.all_token_ids)))
    request.status = rng.choice((RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED))
    computed = rng.choice((num_tokens - 1, rng.randrange(num_tokens)))
    if request.status is RequestStatus.RUNNING:  # a waiting request has computed nothing: `computed` is its hit
        request.num_computed_tokens = computed
    num_wanted = num_tokens - computed
    capped = min(num_wanted, threshold or num_wanted)
    return request, computed, rng.choice((rng.randrange(1, 24), num_wanted, capped, capped + 1, max(1, capped - 1)))


def sampling_cases(rng: Random) -> JudgeQuestion:
    """Requests that sample their first or a later token, or are one token short of that."""
    script = Script(5)
    made = policy(script, [rng.choice((0, 4)), 40, rng.random() < 0.6])
    for _ in range(MAX_CASES):
        request = Request("r", [7] * rng.randrange(1, 12))
        request.all_token_ids.extend([8] * rng.choice((0, 0, 1, 2, 5)))
        borders = (request.num_tokens, request.num_tokens, request.num_prompt_tokens, request.num_tokens - 1)
        made.should_sample(request, rng.choice((*borders, rng.randrange(1, request.num_tokens + 1))))
    return script.question()


def admission_cases(rng: Random) -> JudgeQuestion:
    """Memory that just fits all requests, or misses by a block or two; some hits are in use, others idle."""
    script = Script(5)
    for _ in range(20):
        policy(script, [0, 40, True, rng.random() < 0.8]).admits(*admission_case(rng))
    return script.question()


def admission_case(rng: Random) -> tuple[Request, list[int], list[Request], Memory]:
    """The waiting request, its hits, the running ones, and the memory."""
    block_size, ids = rng.choice((1, 2, 3, 4, 8)), iter(rng.sample(range(1, 200), 199))
    requests = [Request(f"r{number}", [7] * rng.randrange(1, 25)) for number in range(rng.randrange(1, 6))]
    tables: list[list[int]] = []
    for request in requests[1:]:
        request.status = RequestStatus.RUNNING
        request.all_token_ids.extend([8] * rng.randrange(0, 6))
        request.num_computed_tokens = rng.choice((request.num_tokens, rng.randrange(1, request.num_tokens + 1)))
        table = [next(ids) for _ in range(cdiv(request.num_computed_tokens, block_size))]
        if tables and rng.random() < 0.4:
            num_shared = min(2, len(table), len(tables[0]))
            table[:num_shared] = tables[0][:num_shared]
        tables.append(table)
    most_hits = (requests[0].num_tokens - 1) // block_size
    idle = [next(ids) for _ in range(rng.randrange(0, most_hits + 1))]
    shared = list(dict.fromkeys(block for table in tables for block in table[:2]))
    hits = [*shared[: rng.randrange(0, most_hits - len(idle) + 1)], *idle]
    needed = cdiv(requests[0].num_tokens, block_size) - len(hits) + len(idle)
    pairs = zip(requests[1:], tables, strict=True)
    promised = [cdiv(other.num_tokens, block_size) - len(table) + 1 for other, table in pairs]
    num_free = max(len(idle), needed + sum(promised) + rng.choice((0, 0, -1, -1, 1, -2, 3)))
    free = idle + [next(ids) for _ in range(num_free - len(idle))]
    held = {other.request_id: table for other, table in zip(requests[1:], tables, strict=True)}
    return requests[0], hits, requests[1:], Memory(block_size, free, held)
