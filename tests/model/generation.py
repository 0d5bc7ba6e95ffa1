"""Runs the same prompts through transformers and through our engine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mini_vllm import EngineConfig, Lineup, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.elective_parts import window_functions_for
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.llama import paged_model
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner


class NoEndTokenizer(ByteTokenizer):
    """A tokenizer without an end-of-text token: only the length limit ends an output."""

    eos_token_ids: frozenset[int] = frozenset()


@torch.inference_mode()
def transformers_greedy(
    model: Any, prompts: Sequence[list[int]], max_tokens: Sequence[int], *, use_cache: bool = True
) -> list[list[int]]:
    model.set_attn_implementation("sdpa")
    answers = []
    for prompt, length in zip(prompts, max_tokens, strict=True):
        generated = model.generate(
            input_ids=torch.tensor([prompt], device=model.device),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64, device=model.device),
            max_new_tokens=length,
            do_sample=False,
            pad_token_id=0,
            use_cache=use_cache,
        )
        answers.append(generated[0, len(prompt) :].tolist())
    return answers


def engine_for(loaded: LoadedModel, config: EngineConfig, lineup: Lineup | None = None) -> LLMEngine:
    lineup = lineup or parse_lineup("solution:1-6,solution:12")
    config = config.resolved(loaded.max_model_len, 1024)
    scheduler = build_scheduler(config, lineup, windows=loaded.groups.windows)
    num_blocks = scheduler.kv.num_usable_blocks + 1
    steps = replace(runner_steps_for(lineup.runner), windows=window_functions_for(lineup.windows))
    model = paged_model(loaded, steps, num_blocks, scheduler.kv.block_size)
    tokenizer = NoEndTokenizer()
    tokenizer.eos_token_ids = loaded.eos_token_ids
    return LLMEngine(EngineParts(config, scheduler, PagedModelRunner(model, steps), tokenizer))


def outputs_of(
    engine: LLMEngine, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams]
) -> list[RequestOutput]:
    """Return the last outputs for all prompts, served together; afterwards the engine must be empty."""
    for index, (prompt, prompt_params) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(str(index), list(prompt), prompt_params)
    last: dict[str, RequestOutput] = {}
    while engine.has_unfinished_requests():
        last |= {output.request_id: output for output in engine.step()}
    check_drained(engine.scheduler)
    return [last[str(index)] for index in range(len(prompts))]


def engine_greedy(engine: LLMEngine, prompts: Sequence[list[int]], max_tokens: Sequence[int]) -> list[RequestOutput]:
    return outputs_of(engine, prompts, [SamplingParams(max_tokens=length) for length in max_tokens])
