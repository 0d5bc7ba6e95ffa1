"""Phase 6, reference: the step's batch as tensors, attention over the paged KV cache, sampling.

vLLM: `_prepare_inputs` and `execute_model` of `GPUModelRunner` in `v1/worker/gpu_model_runner.py`,
`reshape_and_cache`, the paged attention backends, and `Sampler` in `v1/sample/sampler.py`.
"""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch
from mini_vllm.sampling_params import SamplingParams


def flatten_tokens(batch: Sequence[ScheduledRequest]) -> tuple[list[int], list[int], list[int]]:
    """Return the step's tokens in one row: (input_ids [T], positions [T], query_start_loc [R + 1]).

    A position counts from the request's first token, not from the row's. Request i has the tokens
    `query_start_loc[i]` to `query_start_loc[i + 1] - 1` of the row.
    """
    # No padding: the linear layers see one long row, whatever the requests' lengths. Only attention needs to know which
    # tokens belong together, and `query_start_loc` is all it needs for that.
    input_ids: list[int] = []
    positions: list[int] = []
    query_start_loc = [0]
    for scheduled in batch:
        # Not `request.num_computed_tokens`: that counter was already advanced when the scheduler planned this step.
        first, last = scheduled.num_computed_tokens, scheduled.num_computed_tokens + scheduled.num_scheduled_tokens
        input_ids += scheduled.request.all_token_ids[first:last]
        positions += range(first, last)
        query_start_loc.append(len(input_ids))
    return input_ids, positions, query_start_loc


def compute_slot_mapping(batch: Sequence[ScheduledRequest], block_size: int) -> list[int]:
    """Return the slot for each token's K and V [T]. Slot `b * block_size + i` is position i of block b."""
    slots: list[int] = []
    for scheduled in batch:
        first = scheduled.num_computed_tokens
        for position in range(first, first + scheduled.num_scheduled_tokens):
            block_index, offset = divmod(position, block_size)
            slots.append(scheduled.block_ids[block_index] * block_size + offset)
    return slots


def pad_block_tables(batch: Sequence[ScheduledRequest], block_size: int) -> list[list[int]]:
    """Return the block tables [R, longest], each cut to the blocks that contain tokens after this step.

    Shorter tables are padded with block 0, the null block.
    """
    tables = []
    for scheduled in batch:
        num_tokens = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens
        # A table may have more blocks than this step's tokens fill, because slots can be reserved ahead (lookahead).
        # Cutting first keeps the rectangle, and every gather from it, only as wide as the longest context.
        tables.append(scheduled.block_ids[: cdiv(num_tokens, block_size)])
    longest = max((len(table) for table in tables), default=0)
    # The null block is always a valid index, and the attention mask hides its contents.
    return [table + [0] * (longest - len(table)) for table in tables]


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Return, for each request with `needs_token`, the row of its last token [S]."""
    indices: list[int] = []
    end = 0
    for scheduled in batch:
        # Tokens of an unfinished prompt take up positions in the row but need no logits. A row of logits is as long as
        # the vocabulary, and nothing would be sampled from it here.
        end += scheduled.num_scheduled_tokens
        if scheduled.needs_token:
            indices.append(end - 1)
    return indices


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    # `flatten(0, 1)` of a contiguous cache is a view with one row per slot, so this writes into the cache. All of the
    # step's tokens are written before any of them attends: a request may hit a prefix cache block that another request
    # fills in the same step.
    key_cache.flatten(0, 1).index_copy_(0, slot_mapping, key)
    value_cache.flatten(0, 1).index_copy_(0, slot_mapping, value)


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Attend from each token to its request's tokens up to and including itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    Scores are multiplied by `scale`. The result has the query's dtype and device.
    """
    # Groups, not requests: a call per request would cost more than its arithmetic, and one rectangle for the whole
    # batch would pad every request to the longest. Nothing here is kept for the next layer, whose caches hold different
    # numbers in the same slots; the mask comes with the group and is the same in all layers.
    output = torch.empty_like(query)
    for group in batch.groups:
        keys, values = (_gather(cache, group.block_tables) for cache in (key_cache, value_cache))
        output[group.rows] = _attend(query[group.rows], keys, values, group.mask, scale)
    return output


def _gather(cache: Tensor, block_tables: Tensor) -> Tensor:
    """Copy the blocks of N requests out of the cache: [N, S, kv_heads, head_dim]."""
    # `cache[block_tables]` would give the same numbers, but on a CPU `index_select` with a flat index copies faster.
    blocks = cache.index_select(0, block_tables.flatten())
    return blocks.view(len(block_tables), -1, *cache.shape[2:])


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Attend for N requests of Q tokens; query [N, Q, heads, head_dim], mask [N, 1, Q, S]."""
    # torch expects [N, heads, tokens, head_dim] and a mask in the query's dtype.
    keys, values, mask = keys.transpose(1, 2), values.transpose(1, 2), mask.to(query.dtype)
    if query.shape[1] > 1:
        return scaled_dot_product_attention(
            query.transpose(1, 2), keys, values, attn_mask=mask, scale=scale, enable_gqa=True
        ).transpose(1, 2)
    # With one token each, put the query heads that share a K/V head where the tokens would be. Then the K/V head is
    # read once for all of them, whereas `enable_gqa` would first repeat K and V for every query head.
    heads = query.view(len(query), keys.shape[1], -1, query.shape[3])
    return scaled_dot_product_attention(heads, keys, values, attn_mask=mask, scale=scale).view(query.shape)


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    """Return one token id, a Python integer, for each row of `logits` [S, vocab].

    `draws` has one number per row, 0 <= draw < 1. Temperature 0 selects the most likely token. Otherwise divide the
    logits by the temperature, keep the `top_k` likeliest tokens, and of those keep the fewest whose probabilities
    together reach `top_p`. After each of the two cuts the kept probabilities are scaled to add up to 1. Then walk
    through the kept tokens until the probabilities add up to more than the draw. In a row with a cut (`top_k` over 0 or
    `top_p` under 1), walk from the likeliest token downward; otherwise walk by token id, which needs no sorting.
    Compute in float64, whatever the dtype of the logits. Tokens with equal logits may come in any order.
    """
    tokens = logits.argmax(dim=-1)
    # Rows that need the same work form one batch; usually this means all 64 rows in a step. A loop over rows would wait
    # for Python, and on a GPU for the device, 64 times per step.
    for cuts in product((False, True), repeat=2):
        rows = [row for row, one in enumerate(params) if one.temperature > 0 and (one.top_k > 0, one.top_p < 1) == cuts]
        if rows:
            # Numbers are copied from the host to the GPU without waiting for the forward pass to end.
            index = torch.tensor(rows).to(logits.device, non_blocking=True)
            tokens[index] = _draw(logits[index], [params[row] for row in rows], [draws[row] for row in rows], *cuts)
    # Python integers, fetched in one transfer: the engine compares tokens with `eos_token_id`.
    return tokens.tolist()


def _draw(
    logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float], has_top_k: bool, has_top_p: bool
) -> Tensor:
    """Return the tokens [N] drawn from rows that use the same kinds of filtering."""
    settings = [(one.temperature, one.top_k, one.top_p, number) for one, number in zip(params, draws, strict=True)]
    columns = torch.tensor(settings, dtype=torch.float64).to(logits.device, non_blocking=True).T[..., None]
    temperature, top_k, top_p, draw = columns  # each [N, 1]
    token_ids = None
    if has_top_k or has_top_p:
        num_candidates = min(max(one.top_k for one in params) or logits.shape[1], logits.shape[1])
        logits, token_ids = logits.topk(num_candidates)  # likeliest first
    # Probabilities relative to the most likely token's: where it matters, they are divided by their sum. In place, and
    # in float64: in float32, a sum over 100,000 tokens has an error larger than the smallest difference between draws.
    shares = logits.to(torch.float64, copy=True)
    shares.sub_(shares.amax(dim=-1, keepdim=True)).div_(temperature).exp_()
    if has_top_k:
        shares[torch.arange(shares.shape[1], device=logits.device) >= top_k] = 0
    if has_top_p:
        reached = shares.cumsum(dim=-1)
        # Shifted by one position, so that the token that crosses top_p stays: at least one token is kept.
        shares[:, 1:][reached[:, :-1] >= top_p * reached[:, -1:]] = 0
    reached = shares.cumsum_(dim=-1)
    # A draw is less than 1, so its product with the sum stays below the sum even after rounding, and every draw finds a
    # token.
    chosen = torch.searchsorted(reached, draw * reached[:, -1:], right=True)
    return (chosen if token_ids is None else token_ids.gather(1, chosen)).squeeze(1)


def kv_block_bytes(num_layers: int, block_size: int, num_kv_heads: int, head_dim: int, bytes_per_number: int) -> int:
    """Return the size of one block in bytes: K and V of `block_size` tokens in all layers."""
    return 2 * num_layers * block_size * num_kv_heads * head_dim * bytes_per_number


def num_blocks_that_fit(total_bytes: int, free_bytes: int, gpu_memory_utilization: float, block_bytes: int) -> int:
    """Return how many blocks fit in the engine's share of all memory, minus the memory in use.

    Raises a `ValueError` that states the numbers if fewer than two blocks fit (one of them is the null block).
    """
    # A fraction of the total, as in vLLM: a setting then means the same limit, whatever else is running on the device.
    # Memory used by other programs counts against the engine's share.
    taken_bytes = total_bytes - free_bytes
    num_blocks = int(total_bytes * gpu_memory_utilization - taken_bytes) // block_bytes
    if num_blocks < 2:
        raise ValueError(
            f"no room for the KV cache: {taken_bytes:,} of {total_bytes:,} bytes are in use, the engine may use "
            f"{gpu_memory_utilization:.0%}, and one block needs {block_bytes:,}; raise gpu_memory_utilization"
        )
    return num_blocks
