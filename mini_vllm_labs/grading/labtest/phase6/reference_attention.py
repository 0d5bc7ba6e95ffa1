"""Compares your attention in random steps on a paged cache with a simple version without blocks or batches.

The simple version is slow but obviously correct: each request stores its K and V in lists, and each token attends in a
loop.
"""

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import FlatBatch, PagedAttention, RunnerSteps
from mini_vllm_labs.grading.labtest.phase6.attention_checks import (
    expect_attention,
    expect_only_read,
    expect_same_tensors,
)
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch
from mini_vllm_labs.grading.plays.phase6_plays import LivingRows, describe_rows, row_of

NUM_LAYERS = 2
SHORT = (1, 4, 5, 8, 9, 17, 32)


def naive_attention(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], scale: float) -> Tensor:
    """Return one token's attention output [heads, head_dim] over the K and V of all tokens up to itself."""
    group = query.shape[0] // keys[0].shape[0]
    all_keys, all_values = torch.stack(list(keys)), torch.stack(list(values))
    attended = []
    for head in range(query.shape[0]):
        weights = torch.softmax(all_keys[:, head // group] @ query[head] * scale, dim=0)
        attended.append(weights @ all_values[:, head // group])
    return torch.stack(attended)


@dataclass(slots=True)
class PlainSequence:
    """One request of the random steps; plain lists, one per layer, contain all its K and V."""

    name: str
    num_tokens: int
    block_ids: list[int]
    keys: list[list[Tensor]] = field(default_factory=lambda: [[] for _ in range(NUM_LAYERS)])
    values: list[list[Tensor]] = field(default_factory=lambda: [[] for _ in range(NUM_LAYERS)])

    @property
    def num_computed(self) -> int:
        return len(self.keys[0])

    @property
    def num_left(self) -> int:
        return self.num_tokens - self.num_computed


class AttentionSteps:
    """Requests, and paged caches of two layers, initially filled with stale values; every token is checked."""

    def __init__(
        self,
        seed: int,
        block_size: int,
        num_kv_heads: int,
        group: int,
        head_dim: int = 4,
        lengths: Sequence[int] = SHORT,
    ) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.block_size = block_size
        self.num_kv_heads, self.num_heads, self.head_dim = num_kv_heads, num_kv_heads * group, head_dim
        self.scale = self.random.choice([0.3, 0.4, 0.9])  # never assume 1 / sqrt(head_dim): use the argument
        self.loudness = self.random.choice([1, 1, 300])  # with 300, exp(score) is not finite in float32
        chosen = [self.random.choice([*lengths, block_size, block_size + 1, 2 * block_size]) for _ in "ABCDE"]
        tables = [cdiv(length, block_size) + self.random.choice([0, 1]) for length in chosen]
        num_blocks = sum(tables) + 4
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        # Leftovers from earlier requests, different in each layer.
        self.key_caches = [self.numbers(*shape) * 5 for _ in range(NUM_LAYERS)]
        self.value_caches = [self.numbers(*shape) * 50 for _ in range(NUM_LAYERS)]
        for cache in self.value_caches:
            cache[..., -1] = 1  # makes the last number of each result the sum of its weights
        self.living = LivingRows()
        unused = list(range(1, num_blocks))
        self.random.shuffle(unused)
        self.sequences = [
            PlainSequence(name, length, [unused.pop() for _ in range(size)])
            for name, length, size in zip("ABCDE", chosen, tables, strict=True)
        ]

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def play(self, paged_attention: PagedAttention, all_parts: RunnerSteps | None = None, num_steps: int = 4) -> None:
        """Run steps with first chunks, later chunks and decodes.

        With `all_parts`, your functions also make the tensors, and write K and V.
        """
        self.paged_attention, self.all_parts = paged_attention, all_parts
        for _ in range(num_steps):
            unfinished = [one for one in self.sequences if one.num_left]
            chunks = [(one, self.random_chunk(one)) for one in unfinished if self.random.random() < 0.8]
            self.random.shuffle(chunks)
            if chunks:
                self.step(chunks)

    def random_chunk(self, one: PlainSequence) -> int:
        to_border = self.block_size - one.num_computed % self.block_size
        return min(one.num_left, self.random.choice([1, 2, to_border, to_border + 1, one.num_left]))

    def step(self, chunks: Sequence[tuple[PlainSequence, int]]) -> None:
        """Compute n more tokens of each request in every layer: write K and V, attend, and compare token by token."""
        batch = self.living.now(
            [row_of(one.name, one.num_computed, n, one.block_ids, num_more=one.num_left - n) for one, n in chunks]
        )
        text = describe_rows(batch, self.block_size)
        flat = given = naive_flat_batch(batch, self.block_size)
        if self.all_parts is not None:
            given = self.all_parts.flat_batch(batch, self.block_size, StepBuffer(torch.device("cpu")))
            expect_same_tensors(given, flat, text)
        for layer in range(NUM_LAYERS):
            self._layer(layer, chunks, flat, given, text)

    def _layer(
        self, layer: int, chunks: Sequence[tuple[PlainSequence, int]], flat: FlatBatch, given: FlatBatch, text: str
    ) -> None:
        caches = self.key_caches[layer], self.value_caches[layer]
        num_tokens = sum(flat.query_lens)
        query = self.numbers(num_tokens, self.num_heads, self.head_dim) * self.loudness
        new = [self.numbers(num_tokens, self.num_kv_heads, self.head_dim) for _ in range(2)]
        new[1][..., -1] = 1
        expected = torch.empty_like(query)
        owners = [one for one, n in chunks for _ in range(n)]
        for token, one in enumerate(owners):
            one.keys[layer].append(new[0][token])
            one.values[layer].append(new[1][token])
            expected[token] = naive_attention(query[token], one.keys[layer], one.values[layer], self.scale)
        if self.all_parts is None:
            for cache, numbers in zip(caches, new, strict=True):
                cache.flatten(0, 1)[flat.slot_mapping] = numbers
        else:
            key, value = map(as_the_model_gives_it, new)
            self.all_parts.write_kv(key, value, *caches, given.slot_mapping)
        before = [cache.clone() for cache in caches], deepcopy(given)
        yours = self.paged_attention(as_the_model_gives_it(query), *caches, given, self.scale)
        situation = f"{self.num_heads} query heads, {self.num_kv_heads} K/V heads, scale={self.scale}, layer {layer}"
        if self.loudness > 1:
            situation += ", scores of some hundreds"
        situation += f"\n{text}"
        expect_attention(yours, expected, situation, flat, [one.name for one in owners])
        expect_only_read(before, caches, given, situation)
