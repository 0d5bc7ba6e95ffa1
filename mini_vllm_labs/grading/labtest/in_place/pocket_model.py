"""Provides a two-layer model for phase 6 in an engine; its weights are sine values. This file contains no tasks."""

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import FlatBatch, RunnerSteps
from mini_vllm_labs.grading.labtest.in_place.neighbours import drawn

VOCAB, HEADS, KV_HEADS, SIZE, LAYERS = 256, 6, 2, 4, 2
WIDTH = HEADS * SIZE
BYTES_OF_A_TOKEN = 128  # K and V, 2 layers, 2 heads of 4 numbers, at 4 bytes each


def waves(rows: int, columns: int, salt: float) -> Tensor:
    """Return pseudorandom numbers [rows, columns] between -1 and 1, the same on every machine."""
    places = torch.arange(rows * columns, dtype=torch.float64).reshape(rows, columns)
    return (places * 12.9898 + salt).sin().mul(437.5).frac().float()


class PocketRunner:
    """A `ModelRunner` like `mini_vllm/runner/paged_model_runner.py`, with your functions."""

    vocab_size = VOCAB

    def __init__(self, phase6: ModuleType, num_blocks: int, block_size: int) -> None:
        names = (
            "flatten_tokens compute_slot_mapping pad_block_tables select_logits_rows write_kv paged_attention sample"
        )
        functions = (getattr(phase6, name) for name in (*names.split(), "kv_block_bytes", "num_blocks_that_fit"))
        self.steps, self.block_size = RunnerSteps(*functions), block_size
        self.buffer = StepBuffer(torch.device("cpu"))
        self.caches = torch.zeros(LAYERS, 2, num_blocks, block_size, KV_HEADS, SIZE)
        self.words, self.places = waves(VOCAB, WIDTH, 1), waves(512, WIDTH, 2)
        self.queries, self.outputs = waves(LAYERS * WIDTH, WIDTH, 3), waves(LAYERS * WIDTH, WIDTH, 4)
        self.keys_and_values = waves(LAYERS * WIDTH, 2 * KV_HEADS * SIZE, 5)

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch; no request ends before `min_tokens`."""
        logits = self._forward(self.steps.flat_batch(batch, self.block_size, self.buffer))
        sampling = [one.request for one in batch if one.needs_token]
        for row, request in zip(logits, sampling, strict=True):
            if request.num_output_tokens < request.sampling_params.min_tokens:
                row[list(request.sampling_params.stop_token_ids)] = -torch.inf
        before = logits.clone()
        draws = [drawn(request.seed, request.num_output_tokens) / 2**32 for request in sampling]
        tokens = self.steps.sample(logits, [request.sampling_params for request in sampling], draws)
        if not torch.equal(logits, before):
            raise ValueError("`sample` modified `logits`, but the logprobs need them unchanged")
        return ModelRunnerOutput({one.request_id: [token] for one, token in zip(sampling, tokens, strict=True)})

    def _forward(self, flat: FlatBatch) -> Tensor:
        state = self.words[flat.input_ids] + self.places[flat.positions]
        for layer, (keys, values) in enumerate(self.caches):
            rows = slice(layer * WIDTH, (layer + 1) * WIDTH)
            state = state / state.norm(dim=-1, keepdim=True)
            new = (state @ self.keys_and_values[rows]).view(-1, 2, KV_HEADS, SIZE)
            self.steps.write_kv(new[:, 0], new[:, 1], keys, values, flat.slot_mapping)
            query = (state @ self.queries[rows]).view(-1, HEADS, SIZE)
            seen = self.steps.paged_attention(query, keys, values, flat, SIZE**-0.5)
            state = state + seen.reshape(-1, WIDTH) @ self.outputs[rows]
        return state[flat.logits_indices] @ self.words.T


def num_blocks(phase6: ModuleType, wanted: int, block_size: int) -> int:
    """Return how many blocks your functions allow in half of a memory sized for twice `wanted` blocks."""
    block_bytes = phase6.kv_block_bytes(LAYERS, block_size, KV_HEADS, SIZE, 4)
    total = 2 * wanted * block_size * BYTES_OF_A_TOKEN
    return int(phase6.num_blocks_that_fit(total, total, 0.5, block_bytes))
