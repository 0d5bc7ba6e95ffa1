"""Measures how our scheduler's cost depends on the number of running requests, pool size, queue length and prefix
lookups."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.config import Policy
from mini_vllm.core.request import Request
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.bench import scheduling
from mini_vllm_labs.bench.case import Case, Measured, in_turns
from mini_vllm_labs.bench.explaining import NUM_REQUESTS, explaining
from mini_vllm_labs.bench.scheduling import (
    BLOCK_SIZE,
    SHARED_TOKENS,
    Decoding,
    Maker,
    admissions,
    clock,
    empty_scheduler,
    freeze,
    ours,
    per_request,
    steps_per_round,
    take_step,
)
from mini_vllm_labs.pictures.terminal.progress import ProgressReport, unreported

NUM_ROUNDS = 7
NUM_ADMISSIONS = 2000
SMALL_POOL, LARGE_POOL = 10_000, 1_000_000
NUM_QUEUED = 100_000
NUM_RUNNING = 64  # for comparisons of pool and queue sizes
LOOKED_UP_TOKENS, NUM_LOOK_UPS, WINDOW = 32_000, 20, 1024
Runs = Mapping[str, Callable[[int], Measured]]


def scheduler_cases(lineup: Lineup, report: ProgressReport = unreported) -> Iterator[Case]:
    """Yield the cost of each scheduling operation that the lineup supports.

    Without phase 2, pools and queues are left out, because handling a million slots one by one would take too long.
    """
    maker = ours(lineup)
    decodes: Runs = {f"{count:,} running": Decoding(maker, count, {}, NUM_ROUNDS).round for count in scheduling.RUNNING}
    yield case("A decode in a step that contains only decodes: schedule() + update_from_output()", decodes, report)
    bare: Runs = {f"{count:,} running": partial(bookkeeping, count) for count in scheduling.RUNNING}
    yield case("For comparison, a bare loop with a dict insert, an addition and a list append", bare, report)
    title = f"An admission in a step that admits {NUM_ADMISSIONS:,} requests, which share {SHARED_TOKENS} cached tokens"
    yield Case.of(title, "us", "arrival", admissions({"": maker}, NUM_ADMISSIONS, 3))
    title = f"A fake-model step that reports why requests wait: {NUM_REQUESTS} running and {NUM_REQUESTS} waiting"
    yield case(title, explaining(lineup, NUM_ROUNDS), report)
    if lineup.kv_cache != "absent":
        pools: Runs = {
            f"{size:,}": Decoding(maker, NUM_RUNNING, {"num_blocks": size}, NUM_ROUNDS).round
            for size in (SMALL_POOL, LARGE_POOL)
        }
        yield case(f"A decode with {NUM_RUNNING} requests running, by the number of blocks in the pool", pools, report)
        yield queue_case(maker, report)
    if looking_up := look_ups(lineup):
        yield case(f"A prefix lookup of {LOOKED_UP_TOKENS:,} cached tokens", looking_up, report)
    gc.unfreeze()


def case(title: str, runs: Runs, report: ProgressReport) -> Case:
    """Measure the cost of each side in turn; the first side is the base."""
    freeze()
    return Case.of(title, "us", next(iter(runs)), in_turns(runs, NUM_ROUNDS, report=report, title=title))


def bookkeeping(num_requests: int, number: int) -> Measured:
    """Measure the minimum cost per request of any Python scheduler: a loop that plans, counts and appends a token.

    The minimum is measured in the same run, so that costs can be expressed as multiples of it.
    """
    requests = [Request(f"r{index}", [0]) for index in range(num_requests)]
    num_steps = steps_per_round(num_requests)
    start = clock()
    for _ in range(num_steps):
        plan: dict[str, int] = {}
        for request in requests:
            plan[request.request_id] = 1
            request.num_computed_tokens += 1
            request.all_token_ids.append(5)
    return per_request(clock() - start, num_requests * num_steps)


def queue_case(maker: Maker, report: ProgressReport, policy: Policy = "fcfs") -> Case:
    """Measure a decode with an empty and with a long waiting queue, and the cost of joining the long queue.

    Raises `RuntimeError` if a waiting request was admitted.
    """
    empty, full = (
        Decoding(maker, NUM_RUNNING, {"num_blocks": LARGE_POOL, "policy": policy}, NUM_ROUNDS) for _ in range(2)
    )
    queued = [
        Request(f"q{index}", [index % 1000, index // 1000], SamplingParams(max_tokens=4), priority=1 + index % 7)
        for index in range(NUM_QUEUED)
    ]
    freeze()
    start = clock()
    for request in queued:
        full.scheduler.add_request(request)
    joining = per_request(clock() - start, NUM_QUEUED)
    title = f"A decode with {NUM_RUNNING} requests running, by the length of the waiting queue"
    runs = {"none wait": empty.round, f"{NUM_QUEUED:,} wait": full.round}
    rounds = in_turns(runs, NUM_ROUNDS, report=report, title=title)
    if len(full.scheduler.waiting) != NUM_QUEUED:
        raise RuntimeError(
            f"only {len(full.scheduler.waiting)} of {NUM_QUEUED} requests are still waiting: some were admitted"
        )
    return Case.of(title, "us", "none wait", {**rounds, "joining the queue once": [joining]})


def look_ups(lineup: Lineup) -> Runs:
    """Return rounds that look up a long cached prompt, without and with sliding windows.

    A lineup without phase 12 uses the reference's windows. The result is empty if phase 12 is not available at all, or
    the lineup has no prefix cache.
    """
    grouped = replace(lineup, windows="solution") if lineup.windows == "absent" and solutions_exist() else lineup
    if grouped.windows == "absent" or lineup.prefix_cache == "absent":
        return {}
    return {
        "full attention": look_up(lineup, (None,)),
        "with windows": look_up(grouped, (None, WINDOW)),
    }


def look_up(lineup: Lineup, windows: Sequence[int | None]) -> Callable[[int], Measured]:
    """Return a round that looks up a cached prompt. Raises `RuntimeError` unless all its blocks are found."""
    prompt, params = list(range(LOOKED_UP_TOKENS)), SamplingParams(max_tokens=1)
    size, num_blocks = 2 * LOOKED_UP_TOKENS, LOOKED_UP_TOKENS // BLOCK_SIZE * 2 + 100
    scheduler = empty_scheduler(lineup, 1, size, num_blocks=num_blocks, max_model_len=size, windows=windows)
    scheduler.add_request(Request("first", prompt, params))
    take_step(ours(lineup), scheduler)
    asking = Request("asking", prompt, params)
    if len(scheduler.kv.get_computed_blocks(asking)) != (LOOKED_UP_TOKENS - 1) // BLOCK_SIZE:
        raise RuntimeError(f"looking up {LOOKED_UP_TOKENS:,} cached tokens did not find all of their blocks")

    def measured(number: int) -> Measured:
        start = clock()
        for _ in range(NUM_LOOK_UPS):
            scheduler.kv.get_computed_blocks(asking)
        return per_request(clock() - start, NUM_LOOK_UPS)

    return measured
