"""The paged model runner: one forward pass for everybody, on a KV cache in blocks."""

import random
from collections.abc import Sequence

import torch

from mini_vllm.model.attention import PagedContext, use_paged_attention
from mini_vllm.model.loading import LoadedModel
from mini_vllm.model.steps import RunnerSteps
from mini_vllm.step import ModelRunnerOutput, ScheduledRequest


def draw(row: ScheduledRequest) -> float:
    """Return the random number, 0 to 1, of a request's next token: it depends on its seed and place only."""
    return random.Random(f"{row.request.seed}:{row.request.num_output_tokens}").random()


class PagedModelRunner:
    """A `ModelRunner` for any transformers decoder whose layers all attend in full.

    `num_blocks` includes the null block. The cache has per layer two tensors
    [num_blocks, block_size, kv_heads, head_dim], for K and V.
    """

    def __init__(self, loaded: LoadedModel, steps: RunnerSteps, num_blocks: int, block_size: int) -> None:
        self.model = loaded.model
        self.steps = steps
        self.block_size = block_size
        self.vocab_size = loaded.vocab_size
        self.device = loaded.device
        shape = (num_blocks, block_size, loaded.num_kv_heads, loaded.head_dim)
        layers = range(loaded.num_layers)
        self.key_caches = [torch.zeros(shape, dtype=loaded.dtype, device=self.device) for _ in layers]
        self.value_caches = [torch.zeros(shape, dtype=loaded.dtype, device=self.device) for _ in layers]
        use_paged_attention(self.model)

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch in one forward pass; return one new token for each request that samples."""
        logits = self._forward(batch)
        rows = [row for row in batch if row.samples]
        usable = logits.isfinite().all(dim=-1).tolist()
        good = [index for index, is_usable in enumerate(usable) if is_usable]
        token_ids = self.steps.sample(
            logits[good],
            [rows[index].request.sampling_params for index in good],
            [draw(rows[index]) for index in good],
        )
        return ModelRunnerOutput(
            {rows[index].request.request_id: [token] for index, token in zip(good, token_ids, strict=True)},
            {
                row.request.request_id: "the model gave logits that are not finite"
                for row, is_usable in zip(rows, usable, strict=True)
                if not is_usable
            },
        )

    def _forward(self, batch: Sequence[ScheduledRequest]) -> torch.Tensor:
        flat = self.steps.flat_batch(batch, self.block_size, self.device)
        context = PagedContext(
            flat, self.key_caches, self.value_caches, self.steps.write_kv, self.steps.paged_attention
        )
        output = self.model(
            input_ids=flat.input_ids[None],
            position_ids=flat.positions[None],
            use_cache=False,
            logits_to_keep=flat.logits_indices,
            paged=context,
        )
        logits: torch.Tensor = output.logits[0]
        return logits
