"""Runs phase 12's cases for the graded tests and the judge; each function returns its observations."""

from collections.abc import Sequence
from functools import partial
from math import log, log2
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv

if TYPE_CHECKING:
    from torch import Tensor

    from mini_vllm.runner.steps import FlatBatch

Ints = Sequence[int]
Shares = Sequence[Sequence[int]]
Seen = dict[str, object]  # plain JSON
KEY_SIZE = 3


class ListedPool:
    """A pool whose free queue is a list; every block outside it has one holder."""

    def __init__(self, free: Ints) -> None:
        self.free = list(free)
        self.freed: list[int] = []
        self.pinned: list[list[int]] = []

    @property
    def num_free_blocks(self) -> int:
        return len(self.free)

    def is_free(self, block_id: int) -> bool:
        return block_id in self.free

    def touch(self, block_id: int) -> None:
        if block_id in self.free:
            self.free.remove(block_id)

    def pin(self, table: list[int]) -> None:
        self.pinned.append(list(table))
        for block_id in table:
            if block_id != NULL_BLOCK_ID:
                self.touch(block_id)

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        if not 0 <= num_blocks <= len(self.free):
            raise ValueError(f"get_new_blocks({num_blocks}) was called, but only {len(self.free)} blocks are free")
        taken, self.free = self.free[:num_blocks], self.free[num_blocks:]
        return taken

    def free_blocks(self, block_ids: Ints) -> None:
        for block_id in block_ids:
            if block_id == NULL_BLOCK_ID or block_id in self.free:
                raise ValueError(f"block {block_id} was freed, but no request holds it")
            self.free.append(block_id)
            self.freed.append(block_id)


def frees(phase12: ModuleType, table: list[int], window: int, block_size: int, computed: Ints) -> Seen:
    """Free the blocks outside the window at each count of computed tokens; report the table and the freed blocks."""
    table, seen = list(table), dict[str, object]()
    for num_computed in computed:
        pool = ListedPool([])
        phase12.free_outside_window(table, window, num_computed, block_size, pool)
        seen[f"{num_computed} computed: table"] = list(map(int, table))
        seen[f"{num_computed} computed: freed, in this order"] = pool.freed
    return seen


def allocates(phase12: ModuleType, tables: Sequence[list[int]], num_blocks: int, free: Ints, status: str) -> Seen:
    """Allocate blocks for all groups; report the answer, the tables, the free queue and the pinned tables."""
    given, pool = tuple(map(list, tables)), ListedPool(free)
    new = phase12.allocate_groups(given, num_blocks, pool, pool.pin if status == "waiting" else None)
    are_tables = any(one is table for one in new or [] for table in given)
    returned = None if new is None else [list(map(int, one)) for one in new]
    return {
        "returned": f"your tables: {returned}" if are_tables else returned,
        "tables": list(given),
        "free queue": pool.free,
        "pinned": pool.pinned,
    }


def sliding_hit(phase12: ModuleType, cached: Ints, window: int, block_size: int) -> Seen:
    """Find one group's hit; -1 stands for an uncached block."""
    given = [known(cached)]
    hit = phase12.find_sliding_hit(given[0], window, block_size)
    return {"table": list(map(int, hit))} | kept([hit], given, [cached])


def common_hit(phase12: ModuleType, cached: Shares, windows: Ints, block_size: int) -> Seen:
    """Find the hit across all groups; -1 stands for an uncached block, and window 0 for full attention."""
    given = list(map(known, cached))
    tables = phase12.find_common_hit(given, [window or None for window in windows], block_size)
    seen = {f"table of group {group}": list(map(int, table)) for group, table in enumerate(tables)}
    return seen | kept(tables, given, cached)


def long_hit(
    phase12: ModuleType, num_blocks: int, missing: Ints, window: int, block_size: int, num_groups: int
) -> Seen:
    """Find a window's hit, alone or with full attention; all blocks except `missing` are cached."""
    cached = [None if place in missing else 1000 + place for place in range(num_blocks)]
    if num_groups == 1:
        tables = [phase12.find_sliding_hit(cached, window, block_size)]
    else:
        tables = phase12.find_common_hit([list(range(1, num_blocks + 1)), cached], [None, window], block_size)
    return {
        f"table of group {group}": f"{len(table)} blocks, {table.count(NULL_BLOCK_ID)} null, the last is {table[-1:]}"
        for group, table in enumerate(tables)
    }


def known(cached: Ints) -> list[int | None]:
    return [None if one < 0 else one for one in cached]


def kept(tables: Sequence[list[int]], given: Sequence[list[int | None]], cached: Shares) -> Seen:
    """Report whether `cached` is unchanged, even after the tables are lengthened."""
    for table in tables:
        table.append(NULL_BLOCK_ID)
    return {"cached, when the tables are lengthened": "as before" if list(map(known, cached)) == given else "changed"}


def attends(
    phase12: ModuleType, shares: Shares, window: int, block_size: int, heads: Ints, seed: int, as_on_gpu: bool = False
) -> Seen:
    """Compute attention for requests with (computed, new) tokens; report each token's weights by new token and head.

    Token p's value is the unit vector p. Scores are integer multiples of log 2, so weights differ by powers of 2. Slots
    that no request may read contain a separate value. If `as_on_gpu` is true, all numbers are bfloat16 and on a fake
    device.
    """
    import torch

    from mini_vllm_labs.grading.plays.device_tensors import HOST, OnDevice, on_device

    rng, (num_kv_heads, group) = Random(seed), heads
    lengths = [computed + new for computed, new in shares]
    blocks = list(range(1, sum(cdiv(length, block_size) for length in lengths) + 3))
    rng.shuffle(blocks)
    longest, dtype = max(lengths), torch.bfloat16 if as_on_gpu else torch.float32
    keys = torch.ones(len(blocks) + 1, block_size, num_kv_heads, longest + KEY_SIZE, dtype=dtype)
    values = torch.zeros_like(keys)
    values[..., -1] = 1  # for the null block, and for slots that do not hold a token
    tables = []
    for (computed, _), length in zip(shares, lengths, strict=True):
        table = [blocks.pop() for _ in range(cdiv(length, block_size))]
        for position in range(length):
            slot = table[position // block_size], position % block_size
            for head in range(num_kv_heads):
                keys[slot][head, :KEY_SIZE] = torch.tensor(rng.choices((0.0, 1.0), k=KEY_SIZE))
            values[slot] = 0
            values[slot][:, position] = 1
            values[slot][:, longest] = torch.arange(num_kv_heads)
        num_gone = max(0, computed - window + 1) // block_size
        tables.append([NULL_BLOCK_ID] * num_gone + table[num_gone:])
    batch = batch_of(shares, tables, block_size)
    query = keys.new_zeros(len(batch.positions), num_kv_heads * group, longest + KEY_SIZE)
    asked = query[..., :KEY_SIZE]
    asked.copy_(torch.tensor(rng.choices((0.0, 1.0), k=asked.numel())).view(asked.shape))
    given, read = (query, keys, values, batch), (query, keys, values, batch.block_tables)
    before = [one.clone() for one in read]
    with OnDevice():
        output = phase12.sliding_attention(*(map(on_device, given) if as_on_gpu else given), log(2), window)
    unchanged = all(one.equal(other) for one, other in zip(before, read, strict=True))
    result = f"{list(output.shape)}, {output.dtype}, on {'the host' if output.device == HOST else 'the device'}"
    owners = [f"{'ABCDE'[place]}{p}" for place, (start, new) in enumerate(shares) for p in range(start, start + new)]
    seen: Seen = {
        f"{owner}, head {head}": weights_of(output[row, head], longest)
        for row, owner in enumerate(owners)
        for head in range(query.shape[1])
    }
    return seen | {"what was given": "as before" if unchanged else "changed", "result": result}


def works(phase12: ModuleType, window: int, block_size: int, num_tokens: Ints) -> Seen:
    """Decode after few and many tokens with the same cache; report whether torch creates more tensors after many
    tokens."""
    import torch

    from mini_vllm_labs.grading.plays.work import numbers_made

    longest, made = cdiv(max(num_tokens), block_size), list[int]()
    cache, query = torch.ones(longest + 1, block_size, 1, 64), torch.ones(1, 1, 64)
    for length in num_tokens:
        held = range((length - window) // block_size, cdiv(length, block_size))
        batch = batch_of([[length - 1, 1]], [[int(place in held) for place in range(longest)]], block_size)
        made.append(numbers_made(partial(phase12.sliding_attention, query, cache, cache, batch, 1.0, window)))
    return {"reads more after many tokens": made[-1] - made[0] > cache.numel() // 4}


def average(phase12: ModuleType, window: int, block_size: int, computed: int, new: int) -> Seen:
    """Compute attention with equal keys, so that a token's result is the average over the tokens in its window."""
    import torch

    length = computed + new
    table = list(range(cdiv(length, block_size), 0, -1))
    values = torch.zeros(len(table) + 1, block_size, 1, 64, dtype=torch.float64)
    for position in range(length):
        values[table[position // block_size], position % block_size] = position
    query = torch.ones(new, 1, 64, dtype=torch.float64)
    num_gone = max(0, computed - window + 1) // block_size
    batch = batch_of([[computed, new]], [[NULL_BLOCK_ID] * num_gone + table[num_gone:]], block_size)
    output = phase12.sliding_attention(query, torch.zeros_like(values), values, batch, 1.0, window)
    return {f"token {computed + row}: average": round(float(output[row, 0, 0]), 2) for row in (0, new - 1)}


def weights_of(output: "Tensor", longest: int) -> str:
    """Describe a result [longest + KEY_SIZE]: `7:0 8:2` means that token 8 has 4 times the weight of token 7."""
    shares = output.tolist()
    total = sum(shares[:longest])
    if shares[-1] > 0:
        return f"{shares[-1]:.0%} from slots without a token of this request"
    if not abs(total - 1) < 0.05:
        return f"all weights together are {total:.0%}"
    seen = {position: share for position, share in enumerate(shares[:longest]) if share > 0}
    least = min(seen.values(), default=1)
    counts = " ".join(f"{position}:{round(log2(share / least))}" for position, share in seen.items())
    return f"{counts} (K/V head {round(shares[longest])})"


def batch_of(shares: Shares, tables: Shares, block_size: int) -> "FlatBatch":
    """Make the step's tensors as phase 6 does."""
    import torch

    from mini_vllm.runner.steps import FlatBatch

    positions = [position for computed, new in shares for position in range(computed, computed + new)]
    owners = [table for (_, new), table in zip(shares, tables, strict=True) for _ in range(new)]
    slots = [table[p // block_size] * block_size + p % block_size for p, table in zip(positions, owners, strict=True)]
    longest = max(map(len, tables))
    starts = [sum(new for _, new in shares[:place]) for place in range(len(shares) + 1)]
    lengths = [computed + new for computed, new in shares]
    return FlatBatch(
        input_ids=torch.zeros(len(positions), dtype=torch.int64),
        positions=torch.tensor(positions),
        slot_mapping=torch.tensor(slots),
        query_start_loc=torch.tensor(starts),
        seq_lens=torch.tensor(lengths),
        block_tables=torch.tensor([[*table, *[0] * (longest - len(table))] for table in tables]),
        logits_indices=torch.tensor(starts[1:]) - 1,
        query_lens=[new for _, new in shares],
        seq_lens_cpu=lengths,
        block_size=block_size,
    )


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    block_size, window = rng.choice((1, 2, 4, 8)), rng.randint(1, 20)
    scale = 50 if rng.random() < 0.1 else 1  # occasionally hundreds of blocks
    ids, window = rng.sample(range(1, rng.choice((60, 90_000)) * scale), 40 * scale), window * scale
    match task:
        case 1:
            num_blocks = 12 * scale
            counts = sorted(rng.sample(range(1, num_blocks * block_size), min(5, num_blocks * block_size - 1)))
            return ids[:num_blocks], window, block_size, counts
        case 2:
            num_groups, status = rng.choice((1, 2)), rng.choice(("waiting", "waiting", "running"))
            num_held, num_null = rng.randint(0, 5 * scale), rng.randint(0, 3)
            tables = [ids[10 * scale * group : 10 * scale * group + num_held] for group in range(num_groups)]
            tables[-1][:num_null] = [NULL_BLOCK_ID] * min(num_null, num_held)
            free, num_more = ids[20 * scale :][: rng.randint(2, 14 * scale)], rng.randint(0, 5 * scale)
            if scale > 1:  # exactly enough blocks, or one block too few
                free = ids[20 * scale :][: num_groups * num_more - (rng.random() < 0.5)]
            if status == "waiting":
                free += [one for table in tables for one in table if one and rng.random() < 0.5]
                rng.shuffle(free)
            return tables, num_held + num_more, free, status
        case 3:
            return random_cached(rng, ids), window, block_size
        case 4:
            windows = rng.choice(([0], [window], [0, window], [0, window], [0, window]))
            lists = [random_cached(rng, ids[len(ids) // 2 * group :]) for group in range(len(windows))]
            shortest = min(map(len, lists))
            return [one[:shortest] for one in lists], windows, block_size
    window = rng.randint(1, 20)
    shares = [(rng.choice((0, 0, rng.randint(1, 30))), rng.choice((1, 1, rng.randint(2, 9)))) for _ in range(3)]
    heads, seed = rng.choice(((1, 1), (2, 1), (2, 2), (1, 3), (3, 7))), rng.randrange(1000)
    return shares, window, block_size, heads, seed, seed % 5 == 0


def random_cached(rng: Random, ids: Ints) -> list[int]:
    missing = rng.choice((0.0, 0.1, 0.4)) * (40 / len(ids) if len(ids) > 40 else 1)
    return [-1 if rng.random() < missing else one for one in ids[: rng.randint(0, 14 * max(1, len(ids) // 40))]]
