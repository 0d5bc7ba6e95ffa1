"""A small model with random weights on the judge's side; the learner's functions compute its batches and attention.

The model never leaves the judge. Its tokens must be those of transformers' `generate`. Imports torch.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from classroom.judge.scenario import Features, Scenario, draw_scenario
from classroom.worker.link import Link
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.runner.host import use_one_thread_if_small
from mini_vllm.runner.loading import describe_model
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.steps import FlatBatch, RunnerSteps

MIN_MARGIN = 1e-3
MAX_DRAWS = 50


@dataclass(frozen=True)
class Generation:
    """A scenario, the seed of a model, and the model's output for each request."""

    scenario: Scenario
    seed: int
    truth: dict[str, list[int]]


def draw_generation(rng: Random) -> Generation:
    """Draw a scenario and a model without near ties: no other token is nearly as likely as the chosen one."""
    on = Features(is_tight=True, caching=rng.random() < 0.5, has_threshold=True)
    for _ in range(MAX_DRAWS):
        scenario, seed = draw_scenario(rng, on), rng.getrandbits(60)
        truth = true_tokens(scenario, make_model(seed))
        if truth is not None:
            return Generation(scenario, seed, truth)
    raise RuntimeError(f"no model in {MAX_DRAWS} is without near ties")


def make_model(seed: int) -> Any:
    """Make a model of two layers, 4 query heads over 2 K/V heads, from a seed."""
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
    use_one_thread_if_small(model)
    return model.eval()


def true_tokens(scenario: Scenario, model: Any) -> dict[str, list[int]] | None:
    """Return the output of transformers' greedy `generate` for each request, or None if a choice was a near tie."""
    longest = scenario.config.max_model_len
    assert longest is not None
    truth = {}
    for new in scenario.arrivals:
        prompt = torch.tensor([new.prompt_token_ids])
        with torch.inference_mode():
            output = model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=min(new.max_tokens, longest - prompt.shape[1]),
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        margins = [float(logits[0].topk(2).values.diff().abs()) for logits in output.logits]
        if min(margins) < MIN_MARGIN:
            return None
        truth[new.request_id] = output.sequences[0, prompt.shape[1] :].tolist()
    return truth


def paged_runner(generation: Generation, link: Link) -> ModelRunner:
    """Return the judge's runner of the model, with the learner's functions in it."""
    config, loaded = generation.scenario.config, describe_model(make_model(generation.seed))
    assert config.num_gpu_blocks is not None
    steps = remote_steps(link)
    model = PagedModel(loaded, steps.write_kv, steps.paged_attention, config.num_gpu_blocks, config.block_size)
    return PagedModelRunner(model, steps)


def remote_steps(link: Link) -> RunnerSteps:
    """Return phase 6's functions, each of them a call into the learner's code."""

    def drive(name: str, *arguments: Any) -> Any:
        return link.file.call("drive", 6, name, *arguments)

    def write_kv(key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any) -> None:
        caches = drive("write_kv", key, value, key_cache, value_cache, slot_mapping)
        key_cache.copy_(caches[0])
        value_cache.copy_(caches[1])

    def paged_attention(query: Any, key_cache: Any, value_cache: Any, batch: FlatBatch, scale: float) -> Any:
        return drive("paged_attention", query, key_cache, value_cache, batch, scale)[0].reshape(query.shape)

    ours = runner_steps_for("solution")
    return RunnerSteps(
        flatten_tokens=lambda batch: drive("flat_batch_function", "flatten_tokens", [batch]),
        compute_slot_mapping=lambda batch, size: drive("flat_batch_function", "compute_slot_mapping", [batch, size]),
        pad_block_tables=lambda batch, size: drive("flat_batch_function", "pad_block_tables", [batch, size]),
        select_logits_rows=lambda batch: drive("flat_batch_function", "select_logits_rows", [batch]),
        write_kv=write_kv,
        paged_attention=paged_attention,
        sample=lambda logits, params, draws: drive("sample", logits, list(params), list(draws)),
        kv_block_bytes=ours.kv_block_bytes,
        num_blocks_that_fit=ours.num_blocks_that_fit,
    )
