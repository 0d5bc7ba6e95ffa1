"""The cost of scheduling: CPU time of `schedule()` and `update_from_output()` per request.

The clock is `time.process_time`, CPU seconds of this process, because other processes stretch wall-clock time.
(On Windows, where that clock is too coarse, it is `time.perf_counter`.) Before measuring, `gc.freeze()` excludes
existing objects from garbage collection, as vLLM's engine does; the collector stays on.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from mini_vllm.assembly.build import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.sampling_params import SamplingParams

BLOCK_SIZE = 16
PROMPT_LEN = 32
NUM_ROUNDS = 7
RUNNING = (16, 64, 256, 1024)
NUM_ADMISSIONS, SHARED_TOKENS, OWN_TOKENS = 2000, 512, 16
SMALL_POOL, LARGE_POOL = 10_000, 1_000_000
MAX_MODEL_LEN = 8192
CLOCK: Literal["process_time", "perf_counter"] = (
    "process_time" if time.get_clock_info("process_time").resolution < 1e-5 else "perf_counter"
)
clock: Callable[[], float] = getattr(time, CLOCK)


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU time per request, over several rounds."""

    best: float
    median: float

    @classmethod
    def of(cls, seconds: list[float], num_requests: int) -> "Cost":
        """Divide the rounds' seconds by the requests that each of them handled."""
        each = [1e6 * value / num_requests for value in seconds]
        return cls(min(each), median(each))


@dataclass(frozen=True)
class Admissions:
    """The cost of admitting a request: at arrival (hashing its prompt), in `schedule()`, in the update."""

    arrival: Cost
    schedule: Cost
    update: Cost

    @property
    def together(self) -> Cost:
        """The sum of the three."""
        parts = (self.arrival, self.schedule, self.update)
        return Cost(sum(part.best for part in parts), sum(part.median for part in parts))


@dataclass(frozen=True)
class PoolSizes:
    """The cost per decode with a small and with a large pool, measured in alternating rounds."""

    small: Cost
    large: Cost

    @property
    def ratio(self) -> float:
        """Large over small; 1 means that the size of the pool does not matter."""
        return self.large.median / self.small.median


def freeze() -> None:
    """Run the garbage collector once, then exclude all remaining objects from it."""
    gc.collect()
    gc.freeze()


def decoding_scheduler(lineup: Lineup, num_requests: int, num_blocks: int, num_steps: int) -> Scheduler:
    """Return a scheduler with `num_requests` requests that will decode for at least `num_steps` steps.

    Their prompts end at different places within a block, so that in every step some fill a block.
    """
    longest = PROMPT_LEN + BLOCK_SIZE + num_steps + 8
    config = EngineConfig(
        max_num_seqs=num_requests,
        max_num_batched_tokens=max(MAX_MODEL_LEN, 2 * num_requests),
        max_model_len=max(longest, 1024),
        num_gpu_blocks=num_blocks,
        block_size=BLOCK_SIZE,
    )
    scheduler = build_scheduler(config, lineup)
    for index in range(num_requests):
        prompt = [7 * index + place for place in range(PROMPT_LEN + index % BLOCK_SIZE)]
        scheduler.add_request(Request(f"r{index}", prompt, SamplingParams(max_tokens=num_steps + 8, ignore_eos=True)))
    while len(scheduler.waiting):
        take_step(scheduler)
    return scheduler


def take_step(scheduler: Scheduler) -> None:
    """Schedule a step and give every scheduled request one token."""
    step = scheduler.schedule()
    scheduler.update_from_output(step, {request_id: [5] for request_id in step.num_scheduled_tokens})


def time_round(scheduler: Scheduler, num_steps: int) -> float:
    """Return the CPU seconds of `num_steps` steps, without those of making up the sampled tokens."""
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


def steps_per_round(num_requests: int) -> int:
    """Return a number of steps in which every request fills at least one block, long enough to measure."""
    return BLOCK_SIZE * max(1, 256 // num_requests)


def measure_decodes(lineup: Lineup, num_requests: int, num_blocks: int = 100_000) -> Cost:
    """Return the cost of one scheduled request while `num_requests` decode, prefix caching on."""
    num_steps = steps_per_round(num_requests)
    scheduler = decoding_scheduler(lineup, num_requests, num_blocks, num_steps * NUM_ROUNDS)
    freeze()
    return Cost.of([time_round(scheduler, num_steps) for _ in range(NUM_ROUNDS)], num_requests * num_steps)


def measure_bookkeeping(num_requests: int) -> Cost:
    """Return the minimum cost per request of any scheduler in Python.

    One dict insert (the plan), one addition to a counter, one list append (the token), in a plain loop.
    Measured in the same run, so that costs can be given as multiples of it.
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


def measure_admissions(lineup: Lineup, num_rounds: int = 3) -> Admissions:
    """Return the cost of admitting requests in one step, all but the first with the same cached prefix."""
    rounds = [_admit_once(lineup) for _ in range(num_rounds)]
    arrival, schedule, update = zip(*rounds, strict=True)
    return Admissions(*(Cost.of(list(part), NUM_ADMISSIONS) for part in (arrival, schedule, update)))


def _admit_once(lineup: Lineup) -> tuple[float, float, float]:
    config = EngineConfig(
        max_num_seqs=NUM_ADMISSIONS,
        max_num_batched_tokens=2 * NUM_ADMISSIONS * (SHARED_TOKENS + OWN_TOKENS),
        max_model_len=MAX_MODEL_LEN,
        num_gpu_blocks=100_000,
        block_size=BLOCK_SIZE,
    )
    scheduler = build_scheduler(config, lineup)
    shared = list(range(1000, 1000 + SHARED_TOKENS))
    scheduler.add_request(Request("first", [*shared, 1], SamplingParams(max_tokens=1)))
    take_step(scheduler)
    requests = [
        Request(f"r{i}", [*shared, *range(i, i + OWN_TOKENS)], SamplingParams(max_tokens=1))
        for i in range(NUM_ADMISSIONS)
    ]
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


def measure_pool_sizes(lineup: Lineup, num_requests: int = 64) -> PoolSizes:
    """Return the cost of a decode with ten thousand and with a million blocks, in alternating rounds."""
    num_steps = steps_per_round(num_requests)
    schedulers = [
        decoding_scheduler(lineup, num_requests, num_blocks, num_steps * NUM_ROUNDS)
        for num_blocks in (SMALL_POOL, LARGE_POOL)
    ]
    freeze()
    rounds = [[time_round(scheduler, num_steps) for scheduler in schedulers] for _ in range(NUM_ROUNDS)]
    small, large = zip(*rounds, strict=True)
    return PoolSizes(Cost.of(list(small), num_requests * num_steps), Cost.of(list(large), num_requests * num_steps))


@dataclass(frozen=True)
class SchedulerCosts:
    """All measurements of one run. `bookkeeping` is the baseline, in the order of `decodes`."""

    decodes: dict[int, Cost]
    bookkeeping: dict[int, Cost]
    admissions: Admissions
    pool_sizes: PoolSizes | None


def measure_scheduler(lineup: Lineup, on_progress: Callable[[str], None] = lambda text: None) -> SchedulerCosts:
    """Measure everything; `on_progress` receives the next part. Without phase 2 pool sizes are not measured."""
    decodes, bookkeeping = {}, {}
    num_parts = len(RUNNING) + 3
    for number, num_requests in enumerate(RUNNING, start=1):
        on_progress(f"part {number} of {num_parts}: {num_requests} running requests")
        bookkeeping[num_requests] = measure_bookkeeping(num_requests)
        decodes[num_requests] = measure_decodes(lineup, num_requests)
    on_progress(f"part {num_parts - 2} of {num_parts}: {NUM_ADMISSIONS} admissions")
    admissions = measure_admissions(lineup)
    on_progress(f"part {num_parts - 1} of {num_parts}: pools of ten thousand and of a million blocks")
    pool_sizes = None if lineup.kv_cache == "absent" else measure_pool_sizes(lineup)
    gc.unfreeze()
    return SchedulerCosts(decodes, bookkeeping, admissions, pool_sizes)
