"""Attention without blocks and without batches, and random steps that play it against yours.

Slow and obviously right: every request keeps its K and V in a list, every token attends with a loop.
"""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from course.labtest.phase6.symptoms import NOWHERE, symptom_of_average
from course.labtest.support import lab_failure, make_request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import FlatBatch, PagedAttention, RunnerSteps


def row_of(
    name: str,
    num_computed: int,
    num_scheduled: int,
    block_ids: Sequence[int],
    *,
    num_more: int = 0,
    num_outputs: int = 0,
    samples: bool = True,
) -> ScheduledRequest:
    """Return one request's share of a step; `num_more` of its tokens come in later steps.

    The last `num_outputs` of its tokens are generated ones. Request A has tokens from 100 on, B from 200 on.
    """
    num_prompt = num_computed + num_scheduled + num_more - num_outputs
    first_token = 100 * (ord(name) - ord("A") + 1)
    request = make_request(name, 0, token_ids=range(first_token, first_token + num_prompt))
    request.all_token_ids += range(first_token + 50, first_token + 50 + num_outputs)
    request.num_computed_tokens = num_computed + num_scheduled  # it advances when the step is planned
    return ScheduledRequest(request, num_computed, num_scheduled, list(block_ids), samples)


def describe_rows(batch: Sequence[ScheduledRequest], block_size: int | None = None) -> str:
    lines = [] if block_size is None else [f"block_size={block_size}"]
    for row in batch:
        end = row.num_computed_tokens + row.num_scheduled_tokens
        lines.append(
            f"{row.request.request_id}: num_computed={row.num_computed_tokens}, n={row.num_scheduled_tokens}, "
            f"tokens {row.request.all_token_ids[row.num_computed_tokens : end]}, blocks {row.block_ids}, "
            f"{'samples' if row.needs_token else 'does not sample'}"
        )
    return "\n".join(lines)


def random_rows(rng: random.Random, block_size: int) -> list[ScheduledRequest]:
    """Return decodes, chunks and whole prompts in any order, on shuffled blocks; some tables are too long yet."""
    unused = list(range(1, 200))
    rng.shuffle(unused)
    rows: list[ScheduledRequest] = []
    for name in "ABCDE"[: rng.randint(1, 5)]:
        num_computed = rng.choice([0, block_size - 1, block_size, rng.randint(1, 12)])
        num_scheduled = rng.choice([1, 1, block_size, rng.randint(1, 9)])
        num_more = rng.choice([0, 0, rng.randint(1, 6)])
        num_outputs = rng.randint(0, num_computed)
        num_blocks = -(-(num_computed + num_scheduled + num_more) // block_size) + rng.choice([0, 0, 1])
        block_ids = [unused.pop() for _ in range(num_blocks)]
        samples = num_more == 0
        rows.append(
            row_of(
                name,
                num_computed,
                num_scheduled,
                block_ids,
                num_more=num_more,
                num_outputs=num_outputs,
                samples=samples,
            )
        )
    rng.shuffle(rows)
    return rows


def naive_flat_batch(batch: Sequence[ScheduledRequest], block_size: int) -> FlatBatch:
    """Write down the tensors of a step, token by token."""
    input_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    starts = [0]
    logits_rows: list[int] = []
    tables: list[list[int]] = []
    for row in batch:
        for position in range(row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens):
            input_ids.append(row.request.all_token_ids[position])
            positions.append(position)
            slots.append(row.block_ids[position // block_size] * block_size + position % block_size)
        starts.append(len(positions))
        if row.needs_token:
            logits_rows.append(len(positions) - 1)
        tables.append([block for index, block in enumerate(row.block_ids) if index * block_size <= positions[-1]])
    longest = max(len(table) for table in tables)
    return FlatBatch(
        input_ids=torch.tensor(input_ids),
        positions=torch.tensor(positions),
        slot_mapping=torch.tensor(slots),
        query_start_loc=torch.tensor(starts),
        seq_lens=torch.tensor([row.num_computed_tokens + row.num_scheduled_tokens for row in batch]),
        block_tables=torch.tensor([table + [0] * (longest - len(table)) for table in tables]),
        logits_indices=torch.tensor(logits_rows, dtype=torch.int64),
        query_lens=[row.num_scheduled_tokens for row in batch],
        seq_lens_cpu=[row.num_computed_tokens + row.num_scheduled_tokens for row in batch],
        block_size=block_size,
    )


def naive_attention(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], scale: float) -> Tensor:
    """Return what one token [heads, head_dim] gets from the K and V of all tokens up to itself."""
    group = query.shape[0] // keys[0].shape[0]
    attended = []
    for head in range(query.shape[0]):
        seen_keys = torch.stack([key[head // group] for key in keys])
        seen_values = torch.stack([value[head // group] for value in values])
        weights = torch.softmax(seen_keys @ query[head] * scale, dim=0)
        attended.append(weights @ seen_values)
    return torch.stack(attended)


def as_the_model_gives_it(tensor: Tensor) -> Tensor:
    """Return an equal tensor [T, heads, head_dim] in the memory layout [heads, T, head_dim] of a transformers model."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


@dataclass(slots=True)
class PlainSequence:
    """One request of the random steps, with K and V of all its computed tokens in plain lists."""

    name: str
    num_tokens: int
    block_ids: list[int]
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    @property
    def num_left(self) -> int:
        return self.num_tokens - len(self.keys)


class AttentionSteps:
    """A paged cache full of old numbers, and requests whose every token is checked against the naive attention."""

    def __init__(self, seed: int, block_size: int, num_kv_heads: int, group: int, head_dim: int = 4) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.block_size = block_size
        self.num_kv_heads, self.num_heads, self.head_dim = num_kv_heads, num_kv_heads * group, head_dim
        self.scale = self.random.choice([0.3, 0.4, 0.9])
        self.loudness = self.random.choice([1, 1, 300])  # 300: scores whose exponential is no number any more
        num_blocks = 6 * (-(-40 // block_size) + 1)
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        self.key_cache = self.numbers(*shape) * 5  # what earlier requests left behind
        self.value_cache = self.numbers(*shape) * 50
        unused = list(range(1, num_blocks))
        self.random.shuffle(unused)
        lengths = [1, block_size, 2 * block_size, block_size + 1, 5, 9]
        self.sequences: list[PlainSequence] = []
        for name in "ABCDE":
            length = min(32, self.random.choice(lengths) + self.random.choice([0, 0, self.random.randint(1, 8)]))
            table = [unused.pop() for _ in range(-(-length // block_size) + self.random.choice([0, 1]))]
            self.sequences.append(PlainSequence(name, length, table))

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def play(self, paged_attention: PagedAttention, all_parts: RunnerSteps | None = None, num_steps: int = 4) -> None:
        """Take steps in which some requests begin, some go on and some decode."""
        for _ in range(num_steps):
            alive = [one for one in self.sequences if one.num_left]
            chunks = [(one, self.random_chunk(one)) for one in alive if self.random.random() < 0.8]
            self.random.shuffle(chunks)
            if chunks:
                self.step(chunks, paged_attention, all_parts)

    def random_chunk(self, one: PlainSequence) -> int:
        to_border = self.block_size - len(one.keys) % self.block_size
        return min(one.num_left, self.random.choice([1, 2, to_border, to_border + 1, one.num_left]))

    def step(
        self,
        chunks: Sequence[tuple[PlainSequence, int]],
        paged_attention: PagedAttention,
        all_parts: RunnerSteps | None,
    ) -> None:
        """Compute n more tokens of each: write K and V, let yours attend, compare token by token.

        With `all_parts` the tensors and the writing are yours too.
        """
        batch = [row_of(one.name, len(one.keys), n, one.block_ids, num_more=one.num_left - n) for one, n in chunks]
        flat = naive_flat_batch(batch, self.block_size)
        num_tokens = sum(flat.query_lens)
        query = self.numbers(num_tokens, self.num_heads, self.head_dim) * self.loudness
        key, value = (self.numbers(num_tokens, self.num_kv_heads, self.head_dim) for _ in range(2))
        expected = torch.empty_like(query)
        token = 0
        for one, n in chunks:
            for _ in range(n):
                one.keys.append(key[token])
                one.values.append(value[token])
                expected[token] = naive_attention(query[token], one.keys, one.values, self.scale)
                token += 1
        given = flat
        if all_parts is None:
            naive_write(key, self.key_cache, flat)
            naive_write(value, self.value_cache, flat)
        else:
            given = all_parts.flat_batch(batch, self.block_size, StepBuffer(torch.device("cpu")))
            layout = as_the_model_gives_it
            all_parts.write_kv(layout(key), layout(value), self.key_cache, self.value_cache, given.slot_mapping)
        layers = self.key_cache, self.value_cache
        before = [layer.clone() for layer in layers], deepcopy(given)
        yours = paged_attention(as_the_model_gives_it(query), *layers, given, self.scale)
        situation = f"{self.num_heads} query heads, {self.num_kv_heads} K/V heads, scale={self.scale}"
        if self.loudness > 1:
            situation += ", scores of some hundreds"
        expect_attention(yours, expected, situation, batch, self.block_size)
        expect_only_read(before, layers, given, f"{situation}\n{describe_rows(batch, self.block_size)}")


def expect_only_read(
    before: tuple[Sequence[Tensor], FlatBatch], layers: Sequence[Tensor], batch: FlatBatch, situation: str
) -> None:
    """Go on if the caches and the batch are as they were before `paged_attention` was called."""
    pairs = dict(zip(("K cache", "V cache"), zip(before[0], layers, strict=True), strict=True))
    pairs |= {
        part.name: (getattr(before[1], part.name), getattr(batch, part.name)) for part in fields(batch) if part.init
    }
    changed = [
        name
        for name, (old, new) in pairs.items()
        if not (torch.equal(old, new) if isinstance(old, Tensor) else old == new)
    ]
    if changed:
        lab_failure(
            rule="paged_attention only reads the caches and the batch: the next layer gets the same batch.",
            situation=situation,
            expected="nothing has changed",
            yours=f"changed: {', '.join(changed)}",
            hint="which of your operations works in place, and on whose tensor?",
        )


def naive_write(numbers: Tensor, cache: Tensor, flat: FlatBatch) -> None:
    for token, slot in enumerate(flat.slot_mapping.tolist()):
        cache[slot // cache.shape[1], slot % cache.shape[1]] = numbers[token]


def check_averages(
    paged_attention: PagedAttention,
    batch: Sequence[ScheduledRequest],
    *,
    block_size: int = 4,
    num_kv_heads: int = 1,
    group: int = 1,
    value_of: Callable[[str, int, int], float],
    values_are: str,
) -> None:
    """Check a step in which all K are 0: each token gets the plain average of the V that it may see.

    `value_of(request_id, position, kv_head)` fills the V of the requests, in the words of `values_are`; in all other
    slots V is 1000.
    """
    num_blocks = max(block_id for row in batch for block_id in row.block_ids) + 2
    key_cache = torch.zeros(num_blocks, block_size, num_kv_heads, 2)
    value_cache = torch.full_like(key_cache, NOWHERE)
    flat = naive_flat_batch(batch, block_size)
    expected = torch.zeros(len(flat.positions), num_kv_heads * group, 2)
    token = 0
    for row in batch:
        name = row.request.request_id
        for position in range(row.num_computed_tokens + row.num_scheduled_tokens):
            for head in range(num_kv_heads):
                block, place = row.block_ids[position // block_size], position % block_size
                value_cache[block, place, head] = value_of(name, position, head)
            if position >= row.num_computed_tokens:
                for head in range(num_kv_heads * group):
                    seen = [value_of(name, earlier, head // group) for earlier in range(position + 1)]
                    expected[token, head] = sum(seen) / len(seen)
                token += 1
    query = as_the_model_gives_it(torch.ones_like(expected))
    yours = paged_attention(query, key_cache, value_cache, flat, 0.5)
    situation = (
        f"{num_kv_heads * group} query heads, {num_kv_heads} K/V heads; all K are 0, so a token gets the average "
        f"of the V it sees;\nV is {values_are}, and {NOWHERE} in slots that nobody here has written"
    )

    def hint(row: ScheduledRequest, position: int, head: int, yours: Sequence[float]) -> str:
        name, num_tokens = row.request.request_id, row.num_computed_tokens + row.num_scheduled_tokens
        averages = {
            (kv_head, seen): sum(value_of(name, earlier, kv_head) for earlier in range(seen)) / seen
            for kv_head in range(num_kv_heads)
            for seen in range(1, num_tokens + 1)
        }
        return symptom_of_average(yours, position, head // group, averages)

    expect_attention(yours, expected, situation, batch, block_size, hint)


def expect_attention(
    yours: object,
    expected: Tensor,
    situation: str,
    batch: Sequence[ScheduledRequest],
    block_size: int,
    hint: Callable[[ScheduledRequest, int, int, Sequence[float]], str] = lambda *_: "",
) -> None:
    """Go on if the outputs agree; else show the first token and head that differ.

    `hint(row, position, head, your numbers)` may know more about the cause than the general one.
    """
    situation = f"{situation}\n{describe_rows(batch, block_size)}"
    if not isinstance(yours, Tensor) or yours.shape != expected.shape:
        lab_failure(
            rule="paged_attention returns one vector per token and query head: [T, heads, head_dim].",
            situation=situation,
            expected=tuple(expected.shape),
            yours=tuple(yours.shape) if isinstance(yours, Tensor) else repr(yours),
            hint="which dimension stands where after your last transpose or reshape?",
        )
    is_off = ~torch.isclose(yours.to(expected.dtype), expected, rtol=1e-3, atol=1e-3).all(dim=-1)
    if not is_off.any():
        return
    token, head = (int(number) for number in is_off.nonzero()[0])
    flat = naive_flat_batch(batch, block_size)
    row = batch[sum(start <= token for start in flat.query_start_loc.tolist()) - 1]
    position, numbers = int(flat.positions[token]), [round(float(number), 3) for number in yours[token, head]]
    num_off = int(is_off.any(dim=-1).sum())
    lab_failure(
        rule="Each token attends to its own request's tokens up to itself, and to nothing else.",
        situation=f"{situation}\n{num_off} of {len(is_off)} tokens differ, "
        f"the first: request {row.request.request_id}, position {position}, query head {head}",
        expected=[round(float(number), 3) for number in expected[token, head]],
        yours=numbers,
        hint=hint(row, position, head, numbers)
        or "which slots may this token see: from which blocks, up to which position, of which K/V head?",
    )
