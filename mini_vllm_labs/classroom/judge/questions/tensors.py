"""Draws random questions about the functions of phase 6, both individually and together in a small random model.

The model never leaves the judge, because a worker could read the tokens from it. Imports torch.
"""

import math
from dataclasses import replace
from random import Random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.loading import describe_model, set_threads_for
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.classroom.judge.question import JudgeQuestion
from mini_vllm_labs.classroom.judge.scenario import REFERENCE, Features, draw_scenario
from mini_vllm_labs.classroom.judge.script import Script
from mini_vllm_labs.classroom.worker.scenario import ScenarioRun
from mini_vllm_labs.grading.labtest.phase6.sampling_checks import naive_sample, random_row
from mini_vllm_labs.grading.plays.phase6_plays import batch_of, random_step, row_of

MIN_MARGIN = 1e-3
MAX_DRAWS = 50
RECORD_EVERY = 5  # one step in five, because each recorded call contains an entire KV cache
IN_A_STEP = ("flatten_tokens", "compute_slot_mapping", "pad_block_tables", "select_logits_rows", "write_kv")


def draw_generation(rng: Random) -> JudgeQuestion:
    """Draw a scenario and a model without near ties, in which rounding could change the chosen token."""
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
    raise RuntimeError(f"each of the {MAX_DRAWS} models drawn has near ties")


class Generation:
    """Records calls to the reference, and the smallest margin between a chosen token's logit and the next highest
    logit."""

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
    """Make a model from a seed, with two layers, 4 query heads and 2 KV heads."""
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
    set_threads_for(model)
    return model.eval()


NUM_BLOCKS = 200  # more than `random_step` uses
BLOCKS = range(1, NUM_BLOCKS)


def kv_writes(rng: Random) -> JudgeQuestion:
    """Draw K and V writes for few and many tokens, into nonempty caches and out-of-order slots."""
    generator, script = torch.Generator().manual_seed(rng.getrandbits(60)), Script(6)
    small = [rng.randrange(*r) for r in ((3, 8), (1, 6), (1, 4), (2, 9))]
    for num_blocks, block_size, num_heads, head_dim in (small, (20, 16, 1, 136)):
        num_slots = num_blocks * block_size
        num_tokens = rng.randrange(1, num_slots) if num_slots < 300 else 300
        slots = torch.tensor(rng.sample(range(num_slots), num_tokens))
        new = [torch.randn(num_tokens, num_heads, head_dim, generator=generator) for _ in range(2)]
        caches = [torch.randn(num_blocks, block_size, num_heads, head_dim, generator=generator) for _ in range(2)]
        script.functions.write_kv(*new, *caches, slots)
    return script.question()


def attentions(rng: Random) -> JudgeQuestion:
    """Draw batches over full caches: small batches, long contexts, many requests, large heads."""
    generator, script = torch.Generator().manual_seed(rng.getrandbits(60)), Script(6)
    small = [rng.choice(c) for c in ((1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4), (4, 8))]
    crowd = [row_of("A", 2_099, 1, rng.sample(BLOCKS, 132)), row_of("B", 2_097, 1, rng.sample(BLOCKS, 132))]
    crowd += [row_of(f"R{n}", rng.randrange(16, 31), 1, rng.sample(BLOCKS, 2)) for n in range(80)]
    for (block_size, num_kv_heads, group, head_dim), batch, dtype in (
        (small, batch_of(random_step(rng, small[0])), torch.float32),
        ((16, 1, 2, 4), rng.sample(crowd, len(crowd)), torch.float32),
        ((1, 2, 3, 80), batch_of(random_step(rng, 1)), torch.float64),
    ):
        flat = runner_steps_for("solution").flat_batch(batch, block_size, StepBuffer(torch.device("cpu")))
        query = torch.randn(len(flat.input_ids), num_kv_heads * group, head_dim, generator=generator, dtype=dtype)
        shape, scale = (NUM_BLOCKS, block_size, num_kv_heads, head_dim), rng.choice((head_dim**-0.5, 0.3, 1.0, 0.0))
        for _ in range(2):  # layers
            caches = [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2)]
            script.functions.paged_attention(query, *caches, flat, scale)
    far_attentions(script, rng)
    return script.question()


def far_attentions(script: Script, rng: Random) -> None:
    """Add chunks of a long context in bfloat16. A token attends almost only to itself, so rounding does no harm.

    Above 256, bfloat16 represents only even positions.
    """
    start = rng.choice((255, 300, 700))
    batch = [row_of("A", start, 6, rng.sample(BLOCKS, 45)), row_of("B", 2, 1, [199])]
    flat = runner_steps_for("solution").flat_batch(batch, 16, StepBuffer(torch.device("cpu")))
    caches = [torch.zeros(NUM_BLOCKS, 16, 1, 2, dtype=torch.bfloat16) for _ in range(2)]
    for slot, position in zip(flat.slot_mapping.tolist(), flat.positions.tolist(), strict=True):
        caches[0].flatten(0, 1)[slot] = 60 * (position - start + 1)
        caches[1].flatten(0, 1)[slot] = rng.randrange(1, 200)
    query = torch.full((7, 2, 2), 0.5, dtype=torch.bfloat16)
    script.functions.paged_attention(query, *caches, flat, 1.0)


def samples(rng: Random) -> JudgeQuestion:
    """Draw rows of logits, with settings and random numbers for which the tokens do not depend on rounding."""
    script = Script(6)
    # We need many rows, because an incorrect cut changes only a few rows' results.
    for vocab_size, num_rows, is_warm in ((rng.randrange(5, 30), 120, False), (9, 30, True), (3000, 12, False)):
        drawn = [([0.0, 0.004, *[-1.0] * (vocab_size - 2)], SamplingParams(temperature=1.0 * is_warm), 0.9)]
        while len(drawn) < num_rows:
            logits, params, draw = random_row(rng, vocab_size)
            row = logits, replace(params, temperature=1.0) if is_warm else params, draw
            if naive_sample(*row) is not None:
                drawn.append(row)
        logits, settings, draws = (list(column) for column in zip(*drawn, strict=True))
        script.functions.sample(torch.tensor(logits), settings, draws)
        if vocab_size < 3000:  # settings kept from the last batch of this size are now out of date
            script.functions.sample(torch.tensor(logits[::-1]), settings[::-1], draws[::-1])
    last = torch.full((1, 120_000), -9.0)  # only the last token can be drawn
    last[0, -1] = 99.0
    script.functions.sample(last, [SamplingParams()], [0.5])
    fine_draws(script, rng)
    ties(script, rng)
    return script.question()


def fine_draws(script: Script, rng: Random) -> None:
    """Add random numbers that only float64 can distinguish from a sum of probabilities, with logits in float32 and
    bfloat16."""
    temperature, largest = rng.choice((0.7, 1.0, 1.9)), 1 - 2**-53
    rows = [(step / 4, SamplingParams(temperature=temperature)) for step in range(1, 17)]
    probabilities = [1 / (1 + math.exp(-logit / temperature)) for logit, _ in rows]
    draws = [float(torch.tensor(one, dtype=torch.float32)) for one in probabilities]
    below = [(*row, draw) for row, draw, one in zip(rows, draws, probabilities, strict=True) if one - draw > 1e-9]
    for top_p in (0.9995, 1 - 2**-20):  # the more likely token by itself crosses the limit
        cut = SamplingParams(temperature=1.0, top_p=top_p)
        below += [(-math.log((1 + top_p) / (1 - top_p)), cut, draw) for draw in (0.0, largest)]
    for dtype in (torch.float32, torch.bfloat16):
        logits, settings, draws = (list(column) for column in zip(*below, strict=True))
        script.functions.sample(torch.tensor([[logit, 0.0] for logit in logits]).to(dtype), settings, draws)
    draws = [rng.randrange(1_000) / 1_000 + 1e-5 for _ in range(4)]
    script.functions.sample(torch.ones(4, 1_000).bfloat16(), [SamplingParams(temperature=1.0)] * 4, draws)


def ties(script: Script, rng: Random) -> None:
    """Add rows with equal logits, and sums of probabilities that equal a random number or `top_p`."""
    rows = [([0.0] * 4, SamplingParams(temperature=1.0), draw) for draw in (0.0, 0.25, 0.5, 0.75)]
    rows += [([0.0, -1000.0, 0.0, -1000.0], SamplingParams(temperature=1.0, top_p=0.5), draw) for draw in (0.1, 0.9)]
    while len(rows) < 60:
        logits = [float(rng.randrange(3)) for _ in range(4)]
        params = SamplingParams(temperature=1.0, top_k=rng.randrange(4), top_p=rng.choice((1.0, rng.random())))
        rows += [
            (logits, params, draw)
            for draw in (0.05, 0.35, 0.65, 0.95)
            if naive_sample(logits, params, draw) is not None
        ]
    logits, settings, draws = (list(column) for column in zip(*rows, strict=True))
    script.functions.sample(torch.tensor(logits), settings, draws)
