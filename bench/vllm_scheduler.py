"""Our scheduler and vLLM 0.13.0's own in one process, in turns.

`python -m bench.vllm_scheduler LINEUP ROUNDS ADMISSIONS` runs in `.venv-vllm` and writes a JSON line per comparison.
Every decision of vLLM's is taken by its own, unmodified code; its configuration is made up, because no model runs here.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from bench import scheduler as bench
from bench.scheduler import BLOCK_SIZE, MAX_MODEL_LEN, NUM_BLOCKS, OWN_TOKENS, SHARED_TOKENS, clock, freeze
from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.sampling_params import SamplingParams

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
PARALLEL = "pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"
ABSENT = "lora_config", "kv_events_config", "kv_transfer_config", "ec_transfer_config", "speculative_config"


@dataclass(frozen=True)
class Side:
    """One of the two schedulers: how it and its requests are made, what a step samples, and its free blocks."""

    scheduler: Callable[[int, int], Any]
    params: Callable[..., Any]
    request: Callable[[str, list[int], Any], Any]
    output: Callable[[Any], Any]
    num_free_blocks: Callable[[Any], int]


def ours(lineup: Lineup) -> Side:
    """Return the scheduler of a lineup."""
    return Side(
        partial(bench.empty_scheduler, lineup),
        partial(SamplingParams, ignore_eos=True),
        Request,
        lambda step: {request_id: [5] for request_id in step.num_scheduled_tokens},
        lambda scheduler: scheduler.kv.num_free_blocks,
    )


def vllms() -> Side:
    """Return vLLM's scheduler with prefix caching, as its engine makes it for a text model with full attention."""
    import torch
    from vllm import sampling_params
    from vllm.config import CacheConfig, ObservabilityConfig, SchedulerConfig
    from vllm.utils.hashing import sha256
    from vllm.v1 import kv_cache_interface, outputs, request
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager

    def scheduler(max_num_seqs: int, token_budget: int) -> Any:
        limits = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": token_budget, "max_model_len": MAX_MODEL_LEN}
        cache = CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching=True)
        cache.num_gpu_blocks = NUM_BLOCKS
        config = SimpleNamespace(
            **dict.fromkeys(ABSENT),
            scheduler_config=SchedulerConfig(**limits, async_scheduling=False, is_encoder_decoder=False),
            cache_config=cache,
            observability_config=ObservabilityConfig(),
            parallel_config=SimpleNamespace(data_parallel_rank=0, **dict.fromkeys(PARALLEL, 1)),
            model_config=SimpleNamespace(
                max_model_len=MAX_MODEL_LEN, is_encoder_decoder=False, is_multimodal_model=False
            ),
        )
        layer = kv_cache_interface.FullAttentionSpec(BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
        groups = [kv_cache_interface.KVCacheGroupSpec(["layer"], layer)]
        return Scheduler(
            config,
            kv_cache_interface.KVCacheConfig(NUM_BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups),
            # Asked only whether a request has a grammar, which it does not need to be set up for.
            StructuredOutputManager.__new__(StructuredOutputManager),
            BLOCK_SIZE,
        )

    def output(step: Any) -> Any:
        names = list(step.num_scheduled_tokens)
        places = {name: place for place, name in enumerate(names)}
        return outputs.ModelRunnerOutput(names, places, [[5] for _ in names], None, {}, [])

    logging.disable(logging.WARNING)
    kv_cache_utils.init_none_hash(sha256)
    hasher = kv_cache_utils.get_request_block_hasher(BLOCK_SIZE, sha256)
    return Side(
        scheduler,
        partial(sampling_params.SamplingParams, ignore_eos=True, temperature=0.0),
        partial(request.Request, pooling_params=None, eos_token_id=2, block_hasher=hasher),
        output,
        lambda scheduler: scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
    )


def decode_in_turns(sides: list[Side], num_requests: int, num_rounds: int) -> list[list[float]]:
    """Return, per side, the CPU microseconds of a decode per request in each round."""
    num_steps = bench.steps_per_round(num_requests)
    schedulers = []
    for side in sides:
        schedulers.append(scheduler := side.scheduler(num_requests, MAX_MODEL_LEN))
        params = side.params(max_tokens=num_steps * num_rounds + 8)
        for index in range(num_requests):
            scheduler.add_request(side.request(f"r{index}", bench.decode_prompt(index), params))
        while len(scheduler.waiting):
            take_step(side, scheduler)
    freeze()
    rounds = [
        [sum(take_step(*one, num_requests) for _ in range(num_steps)) for one in zip(sides, schedulers, strict=True)]
        for _ in range(num_rounds)
    ]
    free = [side.num_free_blocks(scheduler) for side, scheduler in zip(sides, schedulers, strict=True)]
    if len(set(free)) > 1:
        raise RuntimeError(f"ours has {free[0]} free blocks after the same steps, vLLM's {free[1]}")
    return [[1e6 * seconds / num_steps / num_requests for seconds in spent] for spent in zip(*rounds, strict=True)]


def take_step(side: Side, scheduler: Any, num_requests: int | None = None) -> float:
    """Take a step, and return its CPU seconds. Raises `RuntimeError` if it is not one of `num_requests` requests."""
    start = clock()
    step = scheduler.schedule()
    planned = clock()
    num_scheduled = len(step.num_scheduled_tokens)
    if num_requests is not None and num_scheduled != num_requests:
        raise RuntimeError(f"a step has {num_scheduled} requests, not {num_requests}")
    output, before_update = side.output(step), clock()
    scheduler.update_from_output(step, output)
    return clock() - before_update + planned - start


def admit(side: Side, num_requests: int) -> tuple[float, float]:
    """Return the CPU microseconds of an arrival and of an admission, per request.

    A request arrives when it is made of its tokens, hashed and queued. It is admitted to its only step, which ends it.
    """
    scheduler = side.scheduler(num_requests, 2 * num_requests * (SHARED_TOKENS + OWN_TOKENS))
    shared, params = list(range(1000, 1000 + SHARED_TOKENS)), side.params(max_tokens=1)
    scheduler.add_request(side.request("first", [*shared, 1], params))  # caches the prefix that the others share
    take_step(side, scheduler, 1)
    prompts = {f"r{index}": [*shared, *range(index, index + OWN_TOKENS)] for index in range(num_requests)}
    freeze()
    requests, start = [], clock()  # kept to the end: giving their memory back is not scheduling
    for name, prompt in prompts.items():
        requests.append(side.request(name, prompt, params))
        scheduler.add_request(requests[-1])
    arrival = clock() - start
    freeze()
    return 1e6 * arrival / num_requests, 1e6 * take_step(side, scheduler, num_requests) / num_requests


def compare(sides: list[Side], num_rounds: int, num_admissions: int) -> Iterator[dict[str, Any]]:
    """Measure the decodes of both sides, then the arrivals and admissions, in turns."""
    for num_requests in bench.RUNNING:
        mine, theirs = decode_in_turns(sides, num_requests, num_rounds)
        yield {"name": f"decode, {num_requests:,} running", "ours": mine, "theirs": theirs}
    rounds = [[admit(side, num_admissions) for side in sides] for _ in range(num_rounds)]
    for place, name in enumerate(("arrival", "admission")):
        mine, theirs = ([one[place] for one in found] for found in zip(*rounds, strict=True))
        yield {"name": name, "ours": mine, "theirs": theirs}


if __name__ == "__main__":
    for case in compare([ours(parse_lineup(sys.argv[1])), vllms()], int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps({**case, "peer": f"vLLM {version('vllm').partition('+')[0]}"}), flush=True)
