"""Random questions to the functions of phase 6. Imports torch."""

from contextlib import suppress
from random import Random

import torch
from torch import Tensor

from classroom.judge.question import JudgeQuestion
from classroom.judge.script import Script
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import FlatBatch
from mini_vllm.sampling_params import SamplingParams

MIN_DISTANCE = 1e-3


def rows(rng: Random) -> JudgeQuestion:
    """A batch, as one row of tokens."""
    script, batch = Script(6), draw_batch(rng, rng.choice((1, 2, 4)))
    script.functions.flatten_tokens(batch)
    script.functions.select_logits_rows(batch)
    return script.question()


def places(rng: Random) -> JudgeQuestion:
    """A batch, as slots and block tables."""
    script, block_size = Script(6), rng.choice((1, 2, 3, 4, 8))
    batch = draw_batch(rng, block_size)
    script.functions.compute_slot_mapping(batch, block_size)
    script.functions.pad_block_tables(batch, block_size)
    return script.question()


def draw_batch(rng: Random, block_size: int) -> list[ScheduledRequest]:
    """Decodes, whole prompts and chunks; tables may be longer than needed, and some blocks are shared."""
    num_blocks = rng.randrange(60, 80)
    free = rng.sample(range(1, num_blocks), num_blocks - 1)
    batch = list[ScheduledRequest]()
    for number in range(rng.randrange(1, 6)):
        num_tokens = rng.randrange(1, 15)
        computed = num_tokens - 1 if rng.random() < 0.4 else rng.randrange(num_tokens)
        count = rng.randrange(1, num_tokens - computed + 1)
        request = Request(f"r{number}", [rng.randrange(50) for _ in range(num_tokens)])
        request.num_computed_tokens = computed + count
        size = min(len(free), cdiv(num_tokens, block_size) + rng.randrange(2))
        table = [free.pop() for _ in range(size)]
        if batch and computed >= block_size and rng.random() < 0.4:
            table[0] = batch[-1].block_ids[0]
        batch.append(ScheduledRequest(request, computed, count, table, computed + count == num_tokens))
    return batch


def kv_writes(rng: Random) -> JudgeQuestion:
    """K and V of some tokens, caches with something in them, slots in no order."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    num_blocks, block_size, num_heads, head_dim = (rng.randrange(*r) for r in ((3, 8), (1, 6), (1, 4), (2, 9)))
    num_tokens = rng.randrange(1, num_blocks * block_size)
    slots = torch.tensor(rng.sample(range(num_blocks * block_size), num_tokens))
    new = [torch.randn(num_tokens, num_heads, head_dim, generator=generator) for _ in range(2)]
    caches = [torch.randn(num_blocks, block_size, num_heads, head_dim, generator=generator) for _ in range(2)]
    script = Script(6)
    script.functions.write_kv(*new, *caches, slots)
    return script.question()


def attentions(rng: Random) -> JudgeQuestion:
    """A batch over caches that are full of other tokens too."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    block_size, num_kv_heads, group, head_dim = (rng.choice(c) for c in ((1, 2, 3, 4), (1, 2, 3), (1, 2, 4), (4, 8)))
    batch = draw_batch(rng, block_size)
    flat = flat_batch(batch, block_size)
    query = torch.randn(len(flat.input_ids), num_kv_heads * group, head_dim, generator=generator)
    shape = (80, block_size, num_kv_heads, head_dim)
    caches = [torch.randn(shape, generator=generator) for _ in range(2)]
    script = Script(6)
    script.functions.paged_attention(query, *caches, flat, rng.choice((head_dim**-0.5, 0.3, 1.0)))
    return script.question()


def flat_batch(batch: list[ScheduledRequest], block_size: int) -> FlatBatch:
    """Return the tensors of a batch, made by the reference."""
    from mini_vllm.assembly.parts import runner_steps_for

    return runner_steps_for("solution").flat_batch(batch, block_size, StepBuffer(torch.device("cpu")))


def samples(rng: Random) -> JudgeQuestion:
    """Rows of logits with settings and draws that stay clear of every border, where rounding would decide."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    logits = torch.randn(rng.randrange(4, 9), rng.randrange(5, 30), generator=generator) * 2
    settings, draws = [], []
    for row in logits:
        while True:
            params = SamplingParams(
                temperature=rng.choice((0.0, 0.5, 1.0, 1.7)),
                top_k=rng.choice((0, 0, 1, 2, 5)),
                top_p=rng.choice((1.0, 1.0, round(rng.uniform(0.05, 0.99), 3))),
            )
            number = rng.random()
            if distance_to_a_border(row, params, number) > MIN_DISTANCE:
                break
        settings.append(params)
        draws.append(number)
    script = Script(6)
    script.functions.sample(logits, settings, draws)
    return script.question()


def distance_to_a_border(row: Tensor, params: SamplingParams, number: float) -> float:
    """Return how far the draw, and the cut of `top_p`, are from a value that gives another token."""
    if params.temperature == 0:
        return float(row.topk(2).values.diff().abs())
    likeliest = (row.double() / params.temperature).softmax(dim=-1).sort(descending=True).values
    likeliest = likeliest[: params.top_k or None]
    reached = (likeliest / likeliest.sum()).cumsum(dim=-1)
    num_kept = min(int((reached < params.top_p).sum()) + 1, len(reached))
    cut = float((reached[:-1] - params.top_p).abs().min()) if params.top_p < 1 and len(reached) > 1 else 1.0
    kept = reached[:num_kept] / reached[num_kept - 1]
    return min([cut, *(abs(float(border) - number) for border in kept[:-1])])


def memory_cases(rng: Random) -> JudgeQuestion:
    """Models and memories of all sizes, some too small for two blocks."""
    script = Script(6)
    for _ in range(10):
        sizes = [rng.randrange(1, 40), rng.choice((4, 8, 16, 32)), rng.randrange(1, 9), rng.choice((8, 64, 128))]
        script.functions.kv_block_bytes(*sizes, rng.choice((2, 4)))
        total, block = rng.randrange(10**6, 10**9), rng.randrange(10**3, 10**6)
        with suppress(ValueError):
            script.functions.num_blocks_that_fit(
                total, rng.randrange(total), rng.choice((0.5, 0.75, 0.875, 1.0)), block
            )
    return script.question()
