"""Runs 20 prompts through vLLM's `LLMEngine` with one scheduler and a real model on a GPU.

`python -m mini_vllm_labs.upkeep.vllm_inside.generated stock|ours MODEL` needs vLLM 0.13.0 and prints a JSON object.
"""

import json
import os
import sys
from typing import Any

# In one process, all prompts arrive before the first step, so that both schedulers see the same arrivals.
os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}

from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.v1.engine.llm_engine import LLMEngine

from mini_vllm_labs.inside_vllm.environment import LEARNERS
from mini_vllm_labs.upkeep.vllm_inside.fake_executor import BLOCK_SIZE

HEAD = "You are a patient teacher. Explain the following in plain words, with one example from a kitchen. Explain: "
TOPICS = (
    *("the tides", "a rainbow", "yeast", "a lever", "compound interest", "an eclipse", "rust", "an echo", "a fever"),
    *("a queue", "a cache", "a magnet", "soap", "a lens", "the seasons", "a vaccine", "a battery", "a prism", "fog"),
    "why ice floats",
)
SETTINGS: dict[str, Any] = {
    "seed": 0,
    "enforce_eager": True,
    "async_scheduling": False,
    "disable_cascade_attn": True,  # a learner's scheduler never requests it, and it sums in a different order
    "block_size": BLOCK_SIZE,
    "num_gpu_blocks_override": 56,  # 16 answers need 90 blocks, so requests are preempted
    "max_model_len": 512,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 128,
}


def generated(scheduler: str, model: str, **more: Any) -> dict[str, Any]:
    """Return each answer's tokens and vLLM's number of preemptions; `more` contains further vLLM settings."""
    scheduler_cls = LEARNERS if scheduler == "ours" else None
    engine = LLMEngine.from_engine_args(EngineArgs(model, scheduler_cls=scheduler_cls, **(SETTINGS | more)))
    for number, topic in enumerate(TOPICS):
        engine.add_request(str(number), HEAD + topic, SamplingParams(temperature=0, max_tokens=64, ignore_eos=True))
    tokens = dict[int, list[int]]()
    while engine.has_unfinished_requests():
        for answer in engine.step():
            tokens[int(answer.request_id)] = list(answer.outputs[0].token_ids)
    metrics: dict[str, Any] = {metric.name: metric for metric in engine.get_metrics()}
    preempted = metrics["vllm:num_preemptions"].value
    return {"tokens": [tokens[number] for number in sorted(tokens)], "num_preempted": preempted}


if __name__ == "__main__":
    print(json.dumps(generated(*sys.argv[1:3])))
