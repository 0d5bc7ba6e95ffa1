"""Compares our scheduler with a vLLM release's stock scheduler, alternating between them in one process.

`python -m mini_vllm_labs.bench.vllm_scheduler LINEUP ROUNDS ADMISSIONS` runs in an environment with vLLM and writes a
JSON line per comparison. vLLM's scheduler runs unmodified, and ours runs under the rules of the same release.
"""

import inspect
import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.bench.scheduling import BLOCK_SIZE, MAX_MODEL_LEN, NUM_BLOCKS, Maker, beside, ours

CONFIG = {
    "max_model_len": MAX_MODEL_LEN,
    "long_prefill_token_threshold": 0,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": True,
    "policy": "fcfs",
    "block_size": BLOCK_SIZE,
    "num_gpu_blocks": NUM_BLOCKS,
    "async_scheduling": False,
    "spec": None,
}


def vllms() -> tuple[str, Maker]:
    """Return vLLM's release and a function that makes its scheduler, with prefix caching and full attention."""
    from mini_vllm_labs.inside_vllm import stock_scheduler as stock

    # must run before vLLM is imported here, because `stock` keeps vLLM's log off stdout
    make_scheduler = stock.make_scheduler
    from vllm import sampling_params
    from vllm.v1 import outputs, request

    def output(step: Any) -> Any:
        names = list(step.num_scheduled_tokens)
        places = {name: place for place, name in enumerate(names)}
        sampled = [[5] for _ in names]
        return outputs.ModelRunnerOutput(
            names, places, sampled_token_ids=sampled, logprobs=None, prompt_logprobs_dict={}, pooler_output=[]
        )

    takes_eos = "eos_token_id" in inspect.signature(request.Request).parameters
    options = {"eos_token_id": 2} if takes_eos else {}
    return stock.VERSION, Maker(
        lambda size, budget: make_scheduler({**CONFIG, "max_num_seqs": size, "max_num_batched_tokens": budget}),
        partial(sampling_params.SamplingParams, ignore_eos=True, temperature=0.0),
        partial(request.Request, pooling_params=None, block_hasher=stock.block_hasher(CONFIG), **options),
        output,
        lambda scheduler: scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
    )


if __name__ == "__main__":
    release, peer = vllms()
    both = {"mini-vLLM": ours(parse_lineup(sys.argv[1]), release), f"vLLM {release}": peer}
    for found in beside(both, int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(asdict(found)), flush=True)
