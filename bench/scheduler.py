"""The cost of scheduling: CPU time of `schedule()` and `update_from_output()` per request.

The clock is `time.process_time`, CPU seconds of this process, because other processes stretch wall-clock time.
(On Windows, where that clock is too coarse, it is `time.perf_counter`.) Before measuring, `gc.freeze()` excludes
existing objects from garbage collection, as in vLLM's engine; the collector stays on.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from bench.scheduler_costs import Cost, Costs
from course.terminal.progress import ProgressReport, unreported
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.config import EngineConfig, Policy
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.sampling_params import SamplingParams

BLOCK_SIZE = 16
PROMPT_LEN = 32
NUM_ROUNDS = 7
NUM_BLOCKS = 100_000
RUNNING = (16, 64, 256, 1024)
NUM_ADMISSIONS, SHARED_TOKENS, OWN_TOKENS = 2000, 512, 16
SMALL_POOL, LARGE_POOL = 10_000, 1_000_000
NUM_QUEUED = 100_000
NUM_RUNNING = 64  # while pools and queues of different sizes are compared
LOOKED_UP_TOKENS, NUM_LOOK_UPS, WINDOW = 32_000, 20, 1024
MAX_MODEL_LEN = 8192
DECODES = "A scheduled request: schedule() + update_from_output(), all decode"
BARE = "Bare: a loop with a dict insert, an addition and a list append"
CLOCK: Literal["process_time", "perf_counter"] = (
    "process_time" if time.get_clock_info("process_time").resolution < 1e-5 else "perf_counter"
)
clock: Callable[[], float] = getattr(time, CLOCK)


def measure_scheduler(lineup: Lineup, report: ProgressReport = unreported) -> dict[str, Costs]:
    """Measure everything that the lineup can do; return a table of costs for each heading, reported when it is there.

    Without phase 2 pools and queues are left out: a million single slots would take too long.
    """
    tables: dict[str, Costs] = {}

    def keep(heading: str, measure: Callable[[], Costs]) -> None:
        report(heading)
        if found := measure():
            tables[heading] = found
            medians = ", ".join(f"{cost.median:.2f}" for cost in found.values())
            report(heading, found=f"{heading.partition(',')[0]}: {medians} us")

    keep(DECODES, lambda: {f"{count:,} running": measure_decodes(lineup, count) for count in RUNNING})
    keep(BARE, lambda: {f"{count:,} running": measure_bookkeeping(count) for count in RUNNING})
    keep(
        f"An admission, {NUM_ADMISSIONS:,} in one step that share {SHARED_TOKENS} cached tokens",
        lambda: measure_admissions(lineup),
    )
    if lineup.kv_cache != "absent":
        keep(f"A decode, {NUM_RUNNING} running, by the blocks of the pool", lambda: measure_pools(lineup))
        keep(f"A decode, {NUM_RUNNING} running, by the queue", lambda: measure_queues(lineup))
    keep(f"A prefix look-up of {LOOKED_UP_TOKENS:,} cached tokens", lambda: measure_look_ups(lineup))
    gc.unfreeze()
    return tables


def measure_decodes(lineup: Lineup, num_requests: int, num_blocks: int = NUM_BLOCKS) -> Cost:
    """Return the cost of one scheduled request while `num_requests` decode, prefix caching on."""
    [cost] = _in_turns([decoding_scheduler(lineup, num_requests, num_blocks)])
    return cost


def measure_bookkeeping(num_requests: int) -> Cost:
    """Return the minimum cost per request of any scheduler in Python: the plan, a counter and the token in a loop.

    It is measured in the same run, so that costs can be given as multiples of it.
    """
    requests = [Request(f"r{index}", [0]) for index in range(num_requests)]
    num_steps, seconds = steps_per_round(num_requests), []
    freeze()
    for _ in range(NUM_ROUNDS):
        start = clock()
        for _ in range(num_steps):
            plan: dict[str, int] = {}
            for request in requests:
                plan[request.request_id] = 1
                request.num_computed_tokens += 1
                request.all_token_ids.append(5)
        seconds.append(clock() - start)
    return Cost.of(seconds, num_requests * num_steps)


def measure_admissions(lineup: Lineup, num_rounds: int = 3) -> Costs:
    """Return the cost of admitting requests in one step, all but the first with the same cached prefix."""
    rounds = [_admit_once(lineup) for _ in range(num_rounds)]
    parts = zip(("at arrival", "schedule()", "update"), zip(*rounds, strict=True), strict=True)
    costs = {name: Cost.of(seconds, NUM_ADMISSIONS) for name, seconds in parts}
    return costs | {"together": Cost.of([sum(one) for one in rounds], NUM_ADMISSIONS)}


def _admit_once(lineup: Lineup) -> tuple[float, float, float]:
    scheduler = empty_scheduler(lineup, NUM_ADMISSIONS, 2 * NUM_ADMISSIONS * (SHARED_TOKENS + OWN_TOKENS))
    shared, params = list(range(1000, 1000 + SHARED_TOKENS)), SamplingParams(max_tokens=1)
    scheduler.add_request(Request("first", [*shared, 1], params))  # caches the prefix that the others share
    take_step(scheduler)
    requests = [Request(f"r{i}", [*shared, *range(i, i + OWN_TOKENS)], params) for i in range(NUM_ADMISSIONS)]
    freeze()
    started = clock()
    for request in requests:
        scheduler.add_request(request)
    arrived = clock()
    step = scheduler.schedule()
    planned = clock()
    if len(step.num_scheduled_tokens) != NUM_ADMISSIONS:
        raise RuntimeError(f"{len(step.num_scheduled_tokens)} of {NUM_ADMISSIONS} requests were admitted in one step")
    sampled = {request_id: [5] for request_id in step.num_scheduled_tokens}
    before_update = clock()
    scheduler.update_from_output(step, sampled)
    return arrived - started, planned - arrived, clock() - before_update


def measure_pools(lineup: Lineup, num_requests: int = NUM_RUNNING) -> Costs:
    """Return the cost of a decode with ten thousand and with a million blocks."""
    sizes = (SMALL_POOL, LARGE_POOL)
    costs = _in_turns([decoding_scheduler(lineup, num_requests, size) for size in sizes])
    return dict(zip((f"{size:,}" for size in sizes), costs, strict=True))


def measure_queues(lineup: Lineup, policy: Policy = "fcfs") -> Costs:
    """Return the cost of joining a queue of 100,000, and of a decode with no and with so many waiting requests."""
    empty, full = (decoding_scheduler(lineup, NUM_RUNNING, LARGE_POOL, policy) for _ in range(2))
    queued = [
        Request(f"q{index}", [index % 1000, index // 1000], SamplingParams(max_tokens=4), priority=1 + index % 7)
        for index in range(NUM_QUEUED)
    ]
    freeze()
    start = clock()
    for request in queued:
        full.add_request(request)
    joining = Cost.of([clock() - start], NUM_QUEUED)
    none, many = _in_turns([empty, full])
    if len(full.waiting) != NUM_QUEUED:
        raise RuntimeError(f"{len(full.waiting)} of {NUM_QUEUED} requests still wait: some were admitted")
    return {"none wait": none, f"{NUM_QUEUED:,} wait": many, "to join, once": joining}


def measure_look_ups(lineup: Lineup) -> Costs:
    """Return the cost of looking up a long cached prompt without and with sliding windows; empty without the phases.

    The reference's phase 12 is used where the lineup has none.
    """
    grouped = replace(lineup, windows="solution") if lineup.windows == "absent" and solutions_exist() else lineup
    if grouped.windows == "absent" or lineup.prefix_cache == "absent":
        return {}
    prompt, params = list(range(LOOKED_UP_TOKENS)), SamplingParams(max_tokens=1)
    size, num_blocks = 2 * LOOKED_UP_TOKENS, LOOKED_UP_TOKENS // BLOCK_SIZE * 2 + 100
    schedulers = [
        empty_scheduler(lineup, 1, size, num_blocks, max_model_len=size),
        empty_scheduler(grouped, 1, size, num_blocks, max_model_len=size, windows=(None, WINDOW)),
    ]
    asking = Request("asking", prompt, params)
    for scheduler in schedulers:
        scheduler.add_request(Request("first", prompt, params))
        take_step(scheduler)
        if len(scheduler.kv.get_computed_blocks(asking)) != (LOOKED_UP_TOKENS - 1) // BLOCK_SIZE:
            raise RuntimeError(f"a look-up of {LOOKED_UP_TOKENS:,} cached tokens did not find all their blocks")
    freeze()
    rounds: list[list[float]] = []
    for _ in range(NUM_ROUNDS):
        rounds.append([])
        for scheduler in schedulers:
            start = clock()
            for _ in range(NUM_LOOK_UPS):
                scheduler.kv.get_computed_blocks(asking)
            rounds[-1].append(clock() - start)
    costs = (Cost.of(seconds, NUM_LOOK_UPS) for seconds in zip(*rounds, strict=True))
    return dict(zip(("full attention", "with windows"), costs, strict=True))


def _in_turns(schedulers: Sequence[Scheduler]) -> list[Cost]:
    """Return the cost of a decode in each of the schedulers, measured in turns: a slow moment hits all alike."""
    num_requests = len(schedulers[0].running)
    num_steps = steps_per_round(num_requests)
    freeze()
    rounds = [[time_round(scheduler, num_steps) for scheduler in schedulers] for _ in range(NUM_ROUNDS)]
    return [Cost.of(seconds, num_requests * num_steps) for seconds in zip(*rounds, strict=True)]


def steps_per_round(num_requests: int) -> int:
    """Return a number of steps in which every request fills at least one block, long enough to measure."""
    return BLOCK_SIZE * max(1, 256 // num_requests)


def time_round(scheduler: Scheduler, num_steps: int) -> float:
    """Return the CPU seconds of `num_steps` steps, without the time to make up the sampled tokens."""
    spent = 0.0
    for _ in range(num_steps):
        start = clock()
        step = scheduler.schedule()
        spent += clock() - start
        sampled = {request_id: [5] for request_id in step.num_scheduled_tokens}
        start = clock()
        scheduler.update_from_output(step, sampled)
        spent += clock() - start
    return spent


def decoding_scheduler(lineup: Lineup, num_requests: int, num_blocks: int, policy: Policy = "fcfs") -> Scheduler:
    """Return a full scheduler with `num_requests` requests that decode in all rounds."""
    max_tokens = steps_per_round(num_requests) * NUM_ROUNDS + 8
    scheduler = empty_scheduler(lineup, num_requests, MAX_MODEL_LEN, num_blocks, policy)
    for index in range(num_requests):
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        scheduler.add_request(Request(f"r{index}", decode_prompt(index), params))
    while len(scheduler.waiting):
        take_step(scheduler)
    return scheduler


def decode_prompt(index: int) -> list[int]:
    """Return a prompt; each of 16 ends at another place within a block, so that in every step some fill a block."""
    return [7 * index + place for place in range(PROMPT_LEN + index % BLOCK_SIZE)]


def empty_scheduler(
    lineup: Lineup,
    max_num_seqs: int,
    token_budget: int,
    num_blocks: int = NUM_BLOCKS,
    policy: Policy = "fcfs",
    *,
    max_model_len: int = MAX_MODEL_LEN,
    windows: Sequence[int | None] = (None,),
) -> Scheduler:
    config = EngineConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=token_budget,
        max_model_len=max_model_len,
        num_gpu_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        policy=policy,
    )
    return build_scheduler(config, lineup, windows=windows)


def take_step(scheduler: Scheduler) -> None:
    """Schedule a step and give every scheduled request one token."""
    step = scheduler.schedule()
    scheduler.update_from_output(step, {request_id: [5] for request_id in step.num_scheduled_tokens})


def freeze() -> None:
    """Run the garbage collector once, on what was excluded too, then exclude all remaining objects from it."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
