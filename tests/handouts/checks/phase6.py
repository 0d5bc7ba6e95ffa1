"""Functions for checking the phase 6 handout: the reference on small tensors."""

from collections.abc import Sequence
from math import ceil, exp
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.draws import draw
from mini_vllm.runner.groups import group_requests
from mini_vllm.runner.llama import LlamaModel
from mini_vllm.runner.loading import EMBEDDED_MODEL, describe_model
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import FlatBatch
from mini_vllm_labs.grading.plays.support import make_request, plain_requests
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.roofline import saturation_batch
from solutions import phase6_gpu_runner as phase6
from tests.handouts.checks.runs import add, engine_with, finish

GIB = 2**30
HANDOUT = CHECKOUT / "labs" / "phase6_gpu_runner" / "README.md"
STEPS = runner_steps_for("solution")


def row(name: str, num_tokens: int, computed: int, n: int, blocks: Sequence[int]) -> ScheduledRequest:
    """Return a request scheduled for one step; it samples if the step reaches its last token."""
    first = 100 * (ord(name) - 64)
    request = make_request(name, 0, token_ids=range(first, first + num_tokens))
    return ScheduledRequest(request, computed, n, list(blocks), needs_token=computed + n == num_tokens)


# The step in questions 1 and 2: a chunk of A, a decode of B, all of C's prompt. Blocks of 4.
STEP = [row("A", 10, 4, 4, [5, 2, 8]), row("B", 7, 6, 1, [3, 6]), row("C", 3, 0, 3, [7])]


def flat(batch: Sequence[ScheduledRequest] = STEP, block_size: int = 4) -> FlatBatch:
    return STEPS.flat_batch(batch, block_size, StepBuffer(torch.device("cpu")))


def tensors() -> dict[str, list[Any]]:
    batch = flat()
    return {
        name: getattr(batch, name).tolist()
        for name in ("input_ids", "positions", "slot_mapping", "query_start_loc", "seq_lens")
    } | {"block_tables": batch.block_tables.tolist(), "logits_indices": batch.logits_indices.tolist()}


def blocks_gathered(seq_lens: Sequence[int], grouped: bool) -> int:
    """Return how many 16-token blocks a layer copies for decodes with these lengths, as one rectangle or in groups."""
    blocks = [ceil(length / 16) for length in seq_lens]
    tables = torch.zeros(len(blocks), max(blocks), dtype=torch.int64)
    if not grouped:
        return tables.numel()
    groups = group_requests([1] * len(seq_lens), seq_lens, tables, torch.tensor(seq_lens) - 1, 16)
    return sum(group.block_tables.numel() for group in groups)


def tokens_seen(num_computed: int, n: int) -> list[int]:
    """Return how many tokens influence each token of a chunk."""
    seq_len = num_computed + n
    batch = flat([row("A", seq_len, num_computed, n, [1])], block_size=seq_len)
    keys = torch.zeros(2, seq_len, 1, seq_len)
    values = torch.eye(seq_len)[:, None, :].expand(2, -1, -1, -1)
    seen = phase6.paged_attention(torch.ones(n, 1, seq_len), keys, values, batch, 1.0)
    return [int(number) for number in (seen[:, 0] > 0).sum(-1)]


def tokens_seen_upper_left(num_computed: int, n: int) -> list[int]:
    """Return how many tokens influence each token of a chunk under torch's `is_causal=True`."""
    seq_len = num_computed + n
    values = torch.eye(seq_len)[None, None]
    seen = torch.nn.functional.scaled_dot_product_attention(
        torch.ones(1, 1, n, seq_len), torch.zeros_like(values), values, is_causal=True
    )
    return [int(number) for number in (seen[0, 0] > 0).sum(-1)]


def kv_heads_read(num_heads: int, num_kv_heads: int) -> list[int]:
    keys = torch.zeros(2, 4, num_kv_heads, 2)
    values = torch.arange(num_kv_heads, dtype=torch.float32)[None, None, :, None].expand(2, 4, -1, 2)
    read = phase6.paged_attention(
        torch.ones(1, num_heads, 2), keys, values, flat([row("A", 3, 2, 1, [1])], block_size=4), 1.0
    )
    return [int(number) for number in read[0, :, 0]]


def null_block_leaks(content: float) -> bool:
    """Return whether B's result depends on the contents of the null block, which pads its table."""
    batch = flat([row("A", 15, 14, 1, [1, 2, 3, 4]), row("B", 11, 10, 1, [5, 6, 7])], block_size=4)
    keys, values = torch.ones(8, 4, 1, 2), torch.ones(8, 4, 1, 2)
    values[0] = content
    return bool((phase6.paged_attention(torch.ones(2, 1, 2), keys, values, batch, 1.0) != 1).any())


def first_step_hits(num_tokens: int, block_size: int) -> list[int]:
    """Return the prefix hits of two requests with the same prompt that are admitted in the same step."""
    engine = engine_with(block_size=block_size, num_gpu_blocks=20, max_model_len=40)
    for name in "AB":
        add(engine, name, list(range(num_tokens)))
    return [share.get("hit", 0) for share in finish(engine)[0]["scheduled"]]


def embedded_config() -> Any:
    return AutoConfig.from_pretrained(EMBEDDED_MODEL)


def bytes_per_block(block_size: int) -> int:
    """Return the KV bytes of one block of the embedded model in float32."""
    config = embedded_config()
    return phase6.kv_block_bytes(
        config.num_hidden_layers, block_size, config.num_key_value_heads, config.head_dim, bytes_per_number=4
    )


def sum_of_weights(*scores: float) -> float:
    return round(sum(exp(score - max(scores)) for score in scores), 3)


def num_operators(*, modules: bool) -> int:
    """Return how many torch operators a decode step runs with the embedded model's shape and transformers' modules or
    ours."""
    model = AutoModelForCausalLM.from_config(embedded_config())  # type: ignore[no-untyped-call]
    loaded = describe_model(model.eval())
    kind = PagedModel if modules else LlamaModel
    runner = PagedModelRunner(kind(loaded, STEPS.write_kv, STEPS.paged_attention, num_blocks=4, block_size=16), STEPS)
    with plain_requests(), Counting() as counting:  # type: ignore[no-untyped-call]
        runner.execute_model([row("A", 8, 7, 1, [1])])
    return int(counting.number)


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return func(*args, **(kwargs or {}))


def chosen(probabilities: Sequence[float], number: float, **filters: Any) -> int:
    return phase6.sample(torch.tensor([probabilities]).log(), [SamplingParams(temperature=1.0, **filters)], [number])[0]


def draw_of(seed: int, num_outputs: int) -> float:
    """Return the random number, rounded, for a request with this seed and this many generated tokens."""
    request = make_request("A", 4, num_output_tokens=num_outputs)
    request.seed = seed
    return round(draw(request), 3)


def bfloat16_sum(numbers: Sequence[float]) -> float:
    total = torch.zeros((), dtype=torch.bfloat16)
    for number in numbers:
        total = total + torch.tensor(number, dtype=torch.bfloat16)
    return float(total)


def bfloat16(number: float) -> float:
    return float(torch.tensor(number, dtype=torch.bfloat16))


def is_here(prompt: str) -> bool:
    """Return whether the handout quotes `mini-vllm generate --lineup starter:1,starter:6` word for word."""
    llm = LLM(lineup=parse_lineup("solution:1,solution:6"))
    (output,) = llm.chat([{"role": "user", "content": prompt}], SamplingParams(max_tokens=128))
    return " ".join(output.outputs[0].text.split()) in " ".join(HANDOUT.read_text(encoding="utf-8").split())


kv_block_bytes = phase6.kv_block_bytes
num_blocks_that_fit = phase6.num_blocks_that_fit
