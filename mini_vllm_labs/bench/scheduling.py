"""Measures rounds of our scheduler and of other schedulers: decodes with a full scheduler, arrivals and admissions.

The clock is `time.process_time`, which counts this process's CPU seconds, because other processes inflate wall time.
(On Windows, where that clock is too coarse, it is `time.perf_counter`.) Before measuring, `gc.freeze()` excludes
existing objects from garbage collection, as in vLLM's engine; the collector stays on.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, Policy
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.release_rules import RELEASES
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.bench.case import Case, Measured, Quantity, in_turns

BLOCK_SIZE = 16
PROMPT_LEN = 32
NUM_BLOCKS = 100_000
RUNNING = (16, 64, 256, 1024)
SHARED_TOKENS, OWN_TOKENS = 512, 16
MAX_MODEL_LEN = 8192
CLOCK: Literal["process_time", "perf_counter"] = (
    "process_time" if time.get_clock_info("process_time").resolution < 1e-5 else "perf_counter"
)
clock: Callable[[], float] = getattr(time, CLOCK)


@dataclass(frozen=True)
class Maker:
    """The functions that make one implementation's schedulers, requests and step outputs, and count its free blocks.

    `scheduler` takes the maximum number of running requests, a step's token budget and optional settings.
    """

    scheduler: Callable[..., Any]
    params: Callable[..., Any]
    request: Callable[[str, list[int], Any], Any]
    output: Callable[[Any], Any]
    num_free_blocks: Callable[[Any], int]


def ours(lineup: Lineup, release: str = RELEASES[0]) -> Maker:
    """Return a function that makes a lineup's scheduler under the rules of a vLLM release."""
    return Maker(
        partial(empty_scheduler, lineup, vllm=release),
        partial(SamplingParams, ignore_eos=True),
        Request,
        lambda step: {request_id: [5] for request_id in step.num_scheduled_tokens},
        lambda scheduler: scheduler.kv.num_free_blocks,
    )


def beside(makers: Mapping[str, Maker], num_rounds: int, num_admissions: int) -> Iterator[Case]:
    """Yield the cost of a decode, an arrival and an admission in each implementation; the last implementation is the
    baseline.

    Raises `RuntimeError` if the implementations end with different numbers of free blocks.
    """
    base = list(makers)[-1]
    for count in RUNNING:
        title = f"decode, {count:,} running"
        made = {name: Decoding(maker, count, {}, num_rounds) for name, maker in makers.items()}
        freeze()
        rounds = in_turns({name: one.round for name, one in made.items()}, num_rounds)
        free = [one.maker.num_free_blocks(one.scheduler) for one in made.values()]
        if len(set(free)) > 1:
            raise RuntimeError(
                f"our pool has {free[0]} free blocks after the same steps, but {base}'s pool has {free[1]}"
            )
        yield Case.of(title, "us", base, rounds)
    found = admissions(makers, num_admissions, num_rounds)
    for part in ("arrival", "admission"):
        yield Case.of(part, "us", base, {name: found[f"{name} {part}".strip()] for name in makers})


class Decoding:
    """A full scheduler in which every request decodes in every round."""

    def __init__(self, maker: Maker, num_requests: int, settings: Mapping[str, Any], num_rounds: int) -> None:
        self.maker, self.num_requests, self.num_steps = maker, num_requests, steps_per_round(num_requests)
        self.scheduler = maker.scheduler(num_requests, MAX_MODEL_LEN, **settings)
        params = maker.params(max_tokens=self.num_steps * num_rounds + 8)
        for index in range(num_requests):
            self.scheduler.add_request(maker.request(f"r{index}", decode_prompt(index), params))
        while len(self.scheduler.waiting):
            take_step(maker, self.scheduler)

    def round(self, number: int) -> Measured:
        """Return the CPU microseconds that a decode takes per request."""
        spent = (sum(take_step(self.maker, self.scheduler, self.num_requests)) for _ in range(self.num_steps))
        return per_request(sum(spent), self.num_steps * self.num_requests)


def per_request(seconds: float, count: int) -> Measured:
    return Measured(1e6 * seconds / count)


def steps_per_round(num_requests: int) -> int:
    """Return a number of steps large enough for a measurement and for every request to fill at least one block."""
    return BLOCK_SIZE * max(1, 256 // num_requests)


def decode_prompt(index: int) -> list[int]:
    """Return a prompt; 16 consecutive prompts end at different positions in a block, so that each step fills some
    blocks."""
    return [7 * index + place for place in range(PROMPT_LEN + index % BLOCK_SIZE)]


def take_step(maker: Maker, scheduler: Any, num_requests: int | None = None) -> tuple[float, float]:
    """Run a step; return the CPU seconds for planning and updating, excluding the generation of sampled tokens.

    Raises `RuntimeError` unless the step schedules `num_requests` requests.
    """
    start = clock()
    step = scheduler.schedule()
    planned = clock()
    num_scheduled = len(step.num_scheduled_tokens)
    if num_requests is not None and num_scheduled != num_requests:
        raise RuntimeError(f"a step has {num_scheduled} requests instead of {num_requests}")
    output, before_update = maker.output(step), clock()
    scheduler.update_from_output(step, output)
    return planned - start, clock() - before_update


def admissions(makers: Mapping[str, Maker], count: int, num_rounds: int) -> dict[str, list[Measured]]:
    """Measure the cost of requests that share a cached prefix and are all admitted in one step.

    On arrival, a request is created, hashed and queued. An admission schedules the request for its only step, which
    finishes it.
    """
    rounds = in_turns({name: partial(admit, maker, count) for name, maker in makers.items()}, num_rounds)
    parts = ("arrival", "schedule()", "update")
    costs = {
        f"{name} {part}".strip(): [Measured(one.figures[part].value) for one in found]
        for name, found in rounds.items()
        for part in parts
    }
    for name, found in rounds.items():
        costs[f"{name} admission".strip()] = found
    return costs


def admit(maker: Maker, count: int, number: int) -> Measured:
    """Return the CPU microseconds that an admission, its parts and an arrival take."""
    scheduler = maker.scheduler(count, 2 * count * (SHARED_TOKENS + OWN_TOKENS))
    shared, params = list(range(1000, 1000 + SHARED_TOKENS)), maker.params(max_tokens=1)
    scheduler.add_request(maker.request("first", [*shared, 1], params))  # adds the shared prefix to the cache
    take_step(maker, scheduler, 1)
    prompts = {f"r{index}": [*shared, *range(index, index + OWN_TOKENS)] for index in range(count)}
    freeze()
    # keeps the requests until the end, because freeing their memory is not part of scheduling
    requests, start = [], clock()
    for name, prompt in prompts.items():
        requests.append(maker.request(name, prompt, params))
        scheduler.add_request(requests[-1])
    arrival = clock() - start
    freeze()
    plan, update = take_step(maker, scheduler, count)
    seconds = {"arrival": arrival, "schedule()": plan, "update": update}
    return Measured(
        1e6 * (plan + update) / count, {key: Quantity(1e6 * one / count, "us") for key, one in seconds.items()}
    )


def empty_scheduler(
    lineup: Lineup,
    max_num_seqs: int,
    token_budget: int,
    *,
    num_blocks: int | None = None,
    max_model_len: int = MAX_MODEL_LEN,
    policy: Policy = "fcfs",
    windows: Sequence[int | None] = (None,),
    vllm: str = RELEASES[0],
) -> Scheduler:
    config = EngineConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=token_budget,
        max_model_len=max_model_len,
        num_gpu_blocks=num_blocks or NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        policy=policy,
        vllm=vllm,
    )
    return build_scheduler(config, lineup, windows=windows)


def freeze() -> None:
    """Collect all garbage once, including previously excluded objects, then exclude all remaining objects from
    collection."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
