"""A small model with random weights, run by the reference: the calls of its batches and layers are recorded.

The model never leaves the judge: in a worker it could tell the tokens. Imports torch.
"""

from dataclasses import replace
from random import Random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from classroom.judge.question import JudgeQuestion
from classroom.judge.scenario import Features, draw_scenario
from classroom.judge.scenario_filters import REFERENCE
from classroom.judge.script import Script
from classroom.worker.scenario import ScenarioRun
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.loading import describe_model, use_one_thread_if_small
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner

MIN_MARGIN = 1e-3
MAX_DRAWS = 50
RECORD_EVERY = 5  # steps: each recorded call carries a whole KV cache
IN_A_STEP = ("flatten_tokens", "compute_slot_mapping", "pad_block_tables", "select_logits_rows", "write_kv")


def draw_generation(rng: Random) -> JudgeQuestion:
    """Draw a scenario and a model without near ties, where rounding could choose another token."""
    on = Features(is_tight=True, caching=rng.random() < 0.5, has_threshold=True)
    for _ in range(MAX_DRAWS):
        generation = Generation()
        scenario, model = draw_scenario(rng, on), describe_model(make_model(rng.getrandbits(60)))
        num_blocks, block_size = scenario.config.num_gpu_blocks, scenario.config.block_size
        assert num_blocks is not None
        steps = replace(
            runner_steps_for("solution"),
            sample=generation.sample,
            **{name: getattr(generation.functions, name) for name in (*IN_A_STEP, "paged_attention")},
        )
        paged = PagedModel(model, steps.write_kv, steps.paged_attention, num_blocks, block_size)
        run = ScenarioRun(scenario, REFERENCE, PagedModelRunner(paged, steps))
        while not run.finished:
            generation.script.is_listening = len(run.recorder.steps) % RECORD_EVERY == 0
            run.step()
        if generation.min_margin > MIN_MARGIN:
            return generation.script.question(scenario)
    raise RuntimeError(f"no model in {MAX_DRAWS} is without near ties")


class Generation:
    """The reference's functions, recorded, and the smallest distance between a chosen token and the next best."""

    def __init__(self) -> None:
        self.script = Script(6)
        self.functions = self.script.functions
        self.min_margin = float("inf")

    def sample(self, logits: torch.Tensor, *settings: Any) -> list[int]:
        if len(logits):
            self.min_margin = min(self.min_margin, float(logits.topk(2).values.diff().abs().min()))
        found: list[int] = self.functions.sample(logits, *settings)
        return found


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
