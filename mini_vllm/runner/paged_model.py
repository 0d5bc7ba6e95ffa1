"""A model with its KV cache, which turns a step's tensors into logits."""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from mini_vllm.electives.windows.window_functions import WindowFunctions, require_window_functions
from mini_vllm.runner.attention import PagedContext, use_paged_attention
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.steps import FlatBatch, PagedAttention, WriteKV


class ForwardPass(Protocol):
    """The interface between the runner and a model on any device."""

    @property
    def device(self) -> torch.device: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def kv_caches(self) -> list[Tensor]:
        """The K tensors, then the V tensors, one per layer: [num_blocks, block_size, kv_heads, head_dim]."""
        ...

    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] for the rows in `logits_indices`."""
        ...


class PagedModel:
    """A transformers model with its KV cache, on one device.

    `num_blocks` includes the null block. Each layer has two cache tensors, K and V, of shape [num_blocks, block_size,
    kv_heads, head_dim]. Layers in different groups share tensors.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        write_kv: WriteKV,
        paged_attention: PagedAttention,
        num_blocks: int,
        block_size: int,
        windows: WindowFunctions | None = None,
    ) -> None:
        self.model = loaded.model
        self.device = loaded.device
        self.vocab_size = loaded.vocab_size
        self.block_size = block_size
        self.write_kv = write_kv
        groups = loaded.groups
        self.group_of_layer = groups.group_of_layer
        self.attention_of_layer = [
            paged_attention
            if window is None
            else partial(require_window_functions(windows).sliding_attention, window=window)
            for window in groups.window_of_layer
        ]
        shape = (num_blocks, block_size, loaded.num_kv_heads, loaded.head_dim)
        keys, values = (
            [torch.zeros(shape, dtype=loaded.dtype, device=self.device) for _ in range(groups.num_tensors)]
            for _ in range(2)
        )
        self.key_caches = [keys[place] for place in groups.tensor_of_layer]
        self.value_caches = [values[place] for place in groups.tensor_of_layer]
        use_paged_attention(self.model)

    @property
    def kv_caches(self) -> list[Tensor]:
        return self.key_caches + self.value_caches

    @torch.inference_mode()
    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] for the rows in `logits_indices`."""
        output = self.model(
            input_ids=flat.input_ids[None],
            position_ids=flat.positions[None],
            use_cache=False,
            logits_to_keep=flat.logits_indices,
            paged=PagedContext(
                [flat.of_layers(group) for group in self.group_of_layer],
                self.key_caches,
                self.value_caches,
                self.write_kv,
                self.attention_of_layer,
            ),
        )
        logits: Tensor = output.logits[0]
        return logits
