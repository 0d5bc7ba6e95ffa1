"""Functions for the `<!-- check: ... -->` comments in the phase 12 handout."""

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.request import Request
from mini_vllm_labs.grading.plays.phase12_plays import ListedPool
from solutions.phase12_sliding_windows import find_common_hit, find_sliding_hit, free_outside_window

LINEUP = parse_lineup("solution:1-5,solution:12")


def tables_after(num_tokens: int, windows: tuple[int | None, ...], size: int = 16) -> list[list[int]]:
    """Return the block tables of a text computed in chunks of 512 tokens, with the last 40 one by one."""
    config = EngineConfig(num_gpu_blocks=4000, max_model_len=60_000, block_size=size)
    scheduler = build_scheduler(config, LINEUP, windows=windows)
    request = Request("A", [5] * num_tokens, SamplingParams())
    while request.num_computed_tokens < num_tokens:
        new = max(1, min(512, num_tokens - 40 - request.num_computed_tokens))
        assert scheduler.kv.allocate_slots(request, new) is not None
        request.num_computed_tokens += new
    return [list(table) for table in scheduler.block_tables("A")]


def held(num_tokens: int, windows: tuple[int | None, ...], size: int = 16) -> list[int]:
    """Return how many blocks each group holds after this many tokens."""
    return [sum(one != NULL_BLOCK_ID for one in table) for table in tables_after(num_tokens, windows, size)]


def most_held(num_tokens: int, window: int) -> int:
    """Return the maximum number of blocks that a text holds in the last 16 steps of a decode."""
    return max(held(num_tokens - back, (window,))[0] for back in range(16))


def hit(cached: str, window: int, size: int) -> list[int]:
    """Return a sliding-window hit; in `7 3 - 4`, the numbers are cached blocks, and `-` is an uncached block."""
    return find_sliding_hit(blocks(cached), window, size)


def common(full: str, sliding: str, window: int, size: int) -> int:
    """Return the number of blocks that full-attention and sliding-window layers both hit."""
    return len(find_common_hit([blocks(full), blocks(sliding)], (None, window), size)[0])


def blocks(cached: str) -> list[int | None]:
    return [None if one == "-" else int(one) for one in cached.split()]


def freed(num_computed: int, window: int, size: int) -> int:
    """Return how many of four blocks have left the window."""
    pool = ListedPool([])
    free_outside_window([7, 3, 9, 4], window, num_computed, size, pool)
    return len(pool.freed)
