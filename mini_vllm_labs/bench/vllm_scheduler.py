"""Compares our scheduler with vLLM 0.13.0's in one process, in turns.

`python -m mini_vllm_labs.bench.vllm_scheduler LINEUP ROUNDS ADMISSIONS` runs in `.venv-vllm` and writes a JSON line per
comparison. vLLM's scheduler runs unmodified; its configuration is made up, because no model runs here.
"""

import json
import logging
import os
import sys
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.bench.scheduling import BLOCK_SIZE, MAX_MODEL_LEN, NUM_BLOCKS, Maker, beside, ours

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
PARALLEL = "pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"
ABSENT = "lora_config", "kv_events_config", "kv_transfer_config", "ec_transfer_config", "speculative_config"


def vllms() -> Maker:
    """Return the maker of vLLM's scheduler: prefix caching on, a text model with full attention."""
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
            # An uninitialized manager: the scheduler only checks whether a request has a grammar.
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
    return Maker(
        scheduler,
        partial(sampling_params.SamplingParams, ignore_eos=True, temperature=0.0),
        partial(request.Request, pooling_params=None, eos_token_id=2, block_hasher=hasher),
        output,
        lambda scheduler: scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
    )


if __name__ == "__main__":
    both = {"mini-vLLM": ours(parse_lineup(sys.argv[1])), f"vLLM {version('vllm').partition('+')[0]}": vllms()}
    for found in beside(both, int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(asdict(found)), flush=True)
