"""Serves 200 requests through vLLM's engine core and output processor, alternating between the two schedulers.

`python -m mini_vllm_labs.upkeep.vllm_inside.served ROUNDS FOLDER` runs in `.venv-vllm` and prints a JSON list with one
pair (stock, ours) per round: the texts by request, and the scheduler's CPU seconds. FOLDER contains the configuration
of a small model. All rounds share a process, because importing vLLM takes seconds.
"""

import json
import os
import random
import sys
import time
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}

from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.output_processor import OutputProcessor

from mini_vllm.environment import LAB_CHECKS
from mini_vllm_labs.inside_vllm.environment import LEARNERS
from mini_vllm_labs.upkeep.vllm_inside.fake_executor import BLOCK_SIZE, VOCABULARY, FakeExecutor

NUM_REQUESTS = 200
MAX_MODEL_LEN = 512


def make_engine(scheduler_cls: str | None, folder: str) -> EngineCore:
    """Return vLLM's engine with chunked prompts and 160 blocks, few enough to cause preemptions."""
    model = ModelConfig(
        model=folder, tokenizer=folder, dtype="float16", seed=0, skip_tokenizer_init=True, max_model_len=MAX_MODEL_LEN
    )
    scheduler = SchedulerConfig(
        max_num_seqs=32,
        max_num_batched_tokens=256,
        max_model_len=MAX_MODEL_LEN,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
        async_scheduling=False,
        scheduler_cls=scheduler_cls,
    )
    cache = CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching=True)
    config = VllmConfig(model_config=model, scheduler_config=scheduler, cache_config=cache)
    return EngineCore(config, FakeExecutor, log_stats=True)


def make_requests() -> list[EngineCoreRequest]:
    """Return requests, a third of which share a prefix; stop tokens end some of them."""
    rng, shared, found = random.Random(0), list(range(64)), list[EngineCoreRequest]()
    for number in range(NUM_REQUESTS):
        own = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 200))]
        stops = [rng.randrange(VOCABULARY) for _ in range(40)]
        params = SamplingParams(temperature=0, max_tokens=rng.randint(1, 60), stop_token_ids=stops)
        prompt = shared + own if number % 3 == 0 else own
        found.append(EngineCoreRequest(str(number), prompt, None, params, None, 2, 0.0, None, None, None))
    return found


def timed(method: Any, spent: list[float]) -> Any:
    """Wrap a method so that each call adds its CPU seconds to `spent`."""

    def called(*args: Any) -> Any:
        start = time.thread_time()
        try:
            return method(*args)
        finally:
            spent.append(time.thread_time() - start)

    return called


def serve(scheduler_cls: str | None, folder: str) -> dict[str, Any]:
    """Serve the requests, two of which arrive in each step. Errors in the scheduler and the executor propagate."""
    engine, processor, spent = make_engine(scheduler_cls, folder), OutputProcessor(None, log_stats=False), list[float]()
    scheduler: Any = engine.scheduler
    for name in ("schedule", "update_from_output"):
        setattr(scheduler, name, timed(getattr(scheduler, name), spent))
    executor: Any = engine.model_executor
    waiting, texts = make_requests(), dict[str, list[int]]()
    while waiting or scheduler.has_requests():
        for request in waiting[:2]:
            processor.add_request(request, prompt=None)
            engine.add_request(*engine.preprocess_add_request(request))
        del waiting[:2]
        outputs, _ = engine.step()
        for client in outputs.values():
            for output in processor.process_outputs(client.outputs).request_outputs:
                texts[output.request_id] = list(output.outputs[0].token_ids)
    return {
        "class": type(scheduler).__name__,
        "texts": texts,
        "num_preempted": executor.num_preempted,
        "steps": len(spent) // 2,
        "seconds": sum(spent),
    }


def main() -> None:
    num_rounds, folder = int(sys.argv[1]), sys.argv[2]
    os.environ[LAB_CHECKS.name] = "1"  # reports a violated invariant before it corrupts a text
    serve(LEARNERS, folder)
    os.environ[LAB_CHECKS.name] = "0"
    print(json.dumps([[serve(scheduler, folder) for scheduler in (None, LEARNERS)] for _ in range(num_rounds)]))


if __name__ == "__main__":
    main()
