"""Put together: the parts, the model, and a command that completes prompts."""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from mini_vllm.config import EngineConfig
from mini_vllm.core.absent import NoPrefixCache
from mini_vllm.core.interfaces import SchedulingFunctions
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.scheduler import Scheduler, SchedulerParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.loading import LoadedModel, pick_device
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.steps import RunnerSteps
from mini_vllm.sampling_params import SamplingParams
from solutions.phase1_scheduler_step import clamp, schedule_step, update_from_output
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase3_preemption import PriorityRequestQueue, RecomputePreemption
from solutions.phase4_prefix_cache import HashPrefixCache
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from solutions.phase6_gpu_runner import (
    compute_slot_mapping,
    flatten_tokens,
    kv_block_bytes,
    num_blocks_that_fit,
    pad_block_tables,
    paged_attention,
    sample,
    select_logits_rows,
    write_kv,
)


def build_scheduler(config: EngineConfig) -> Scheduler:
    """Assemble phases 1 to 5. `config` must say `max_model_len` and `num_gpu_blocks`."""
    num_gpu_blocks, max_model_len = config.num_gpu_blocks, config.max_model_len
    if num_gpu_blocks is None or max_model_len is None:
        raise ValueError("max_model_len and num_gpu_blocks must be set before a scheduler is built")

    def make_parts() -> SchedulerParts:
        prefix_cache = HashPrefixCache(config.block_size) if config.enable_prefix_caching else NoPrefixCache()
        return SchedulerParts(
            kv=PagedKVCacheManager(num_gpu_blocks, config.block_size, prefix_cache),
            prefix_cache=prefix_cache,
            preemption=RecomputePreemption(config.policy),
            chunks=ChunkedPrefillPolicy(
                clamp,
                config.long_prefill_token_threshold,
                max_model_len,
                config.enable_chunked_prefill,
                config.admission_guard,
            ),
            waiting=PriorityRequestQueue() if config.policy == "priority" else FCFSRequestQueue(),
        )

    return Scheduler(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        functions=SchedulingFunctions(clamp, schedule_step, update_from_output),
        make_parts=make_parts,
    )


def build_engine(model_path: str, config: EngineConfig) -> LLMEngine:
    """Load a decoder-only model whose layers all attend in full, and assemble an engine on it."""
    model: Any = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, config.dtype))
    model = model.to(pick_device()).eval()
    eos = model.generation_config.eos_token_id
    loaded = LoadedModel(
        model=model,
        eos_token_ids=frozenset(eos if isinstance(eos, list) else [eos]),
        max_model_len=model.config.max_position_embeddings,
        num_layers=model.config.num_hidden_layers,
        num_kv_heads=model.config.num_key_value_heads,
        head_dim=getattr(model.config, "head_dim", model.config.hidden_size // model.config.num_attention_heads),
        vocab_size=model.config.vocab_size,
    )
    config = config.resolved(loaded.max_model_len, num_gpu_blocks=1024)
    scheduler = build_scheduler(config)
    steps = RunnerSteps(
        flatten_tokens,
        compute_slot_mapping,
        pad_block_tables,
        select_logits_rows,
        write_kv,
        paged_attention,
        sample,
        kv_block_bytes,
        num_blocks_that_fit,
    )
    paged = PagedModel(loaded, write_kv, paged_attention, scheduler.kv.num_usable_blocks + 1, config.block_size)
    tokenizer = ModelTokenizer(AutoTokenizer.from_pretrained(model_path), loaded.eos_token_ids)
    return LLMEngine(config, scheduler, PagedModelRunner(paged, steps), tokenizer)


def generate(engine: LLMEngine, prompts: list[str], params: SamplingParams) -> list[str]:
    """Complete the prompts together; return their texts in order."""
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), prompt, params)
    texts: dict[str, str] = {}
    while engine.has_unfinished_requests():
        texts |= {output.request_id: output.outputs[0].text for output in engine.step()}
    return [texts[str(number)] for number in range(len(prompts))]


def main() -> None:
    """Complete the prompts of the command line."""
    parser = argparse.ArgumentParser(description="Complete prompts with a miniature of the vLLM V1 engine.")
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    parser.add_argument("--model", default=str(Path(__file__).with_name("embedded_model")), help="a model directory")
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--num-gpu-blocks", type=int, default=64)
    options = parser.parse_args()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    engine = build_engine(options.model, EngineConfig(num_gpu_blocks=options.num_gpu_blocks))
    texts = generate(engine, options.prompts, SamplingParams(max_tokens=options.max_tokens))
    for prompt, text in zip(options.prompts, texts, strict=True):
        print(f"{prompt}{text}")


if __name__ == "__main__":
    main()
