"""Graded tests of task 6.6."""

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from course.labtest.support import expect_equal


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small are computed ten times faster by one thread than by several that wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 1, 1, 1, 1), 2), ((32, 16, 8, 128, 2), 2_097_152), ((3, 5, 7, 11, 4), 9240), ((28, 16, 2, 128, 2), 458_752)],
)
def test_bytes_of_a_block(phase6: ModuleType, sizes: tuple[int, int, int, int, int], expected: int) -> None:
    expect_equal(
        phase6.kv_block_bytes(*sizes),
        expected,
        rule="A block holds K and V of its tokens, for every layer and K/V head.",
        situation="num_layers={}, block_size={}, num_kv_heads={}, head_dim={}, bytes_per_number={}".format(*sizes),
        hint="how many numbers does one token leave behind in one layer?",
    )


@pytest.mark.parametrize(
    ("total", "free", "share", "block_bytes", "expected"),
    [
        (1000, 1000, 0.5, 100, 5),
        (1000, 500, 0.75, 50, 5),  # 750 allowed, 500 taken
        (1000, 800, 0.75, 100, 5),  # 550 left: whole blocks only
        (1000, 700, 1.0, 100, 7),
        (1000, 700, 0.5, 100, 2),  # just enough
        (80 * 2**30, 78 * 2**30, 0.875, 2**21, 34_816),
    ],
)
def test_blocks_that_fit(
    phase6: ModuleType, total: int, free: int, share: float, block_bytes: int, expected: int
) -> None:
    expect_equal(
        phase6.num_blocks_that_fit(total, free, share, block_bytes),
        expected,
        rule="The engine may use a share of all memory; what is taken already counts against that share.",
        situation=f"total={total:,}  free={free:,}  gpu_memory_utilization={share}  block_bytes={block_bytes:,}",
        hint="of which number is the share a share, and who has taken total - free?",
    )


@pytest.mark.parametrize(
    ("total", "free", "share", "block_bytes"),
    [(1000, 700, 0.5, 101), (1000, 700, 0.5, 150), (1000, 300, 0.5, 10), (1000, 1000, 0.5, 501), (1000, 500, 0.5, 1)],
)
def test_no_room_is_refused_with_the_numbers(
    phase6: ModuleType, total: int, free: int, share: float, block_bytes: int
) -> None:
    situation = f"total={total}  free={free}  gpu_memory_utilization={share}  block_bytes={block_bytes}"
    hint = "one of the blocks is the null block: what could an engine with one block do?"
    rule = "If not even two blocks fit, num_blocks_that_fit raises ValueError and names the numbers."
    without_numbers = "whoever reads this must find out what to change: which numbers does it take?"
    try:
        num_blocks = phase6.num_blocks_that_fit(total, free, share, block_bytes)
    except ValueError as error:
        message = str(error)
        outcome = "ValueError with numbers"
        if not any(sign.isdigit() for sign in message):
            outcome, hint = f"ValueError: {message!r}", without_numbers
    else:
        outcome = f"{num_blocks} blocks"
    expect_equal(outcome, "ValueError with numbers", rule=rule, situation=situation, hint=hint)
