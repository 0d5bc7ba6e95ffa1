"""Graded tests of task 6.6."""

from types import ModuleType

import pytest

from course.labtest.expect import expect_equal, lab_failure
from course.labtest.named_numbers import numbers_named
from course.labtest.whole_numbers import whole_number


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 1, 1, 1, 1), 2), ((32, 16, 8, 128, 2), 2_097_152), ((3, 5, 7, 11, 4), 9240), ((28, 16, 2, 128, 2), 458_752)],
)
def test_bytes_of_a_block(phase6: ModuleType, sizes: tuple[int, int, int, int, int], expected: int) -> None:
    situation = "num_layers={}, block_size={}, num_kv_heads={}, head_dim={}, bytes_per_number={}".format(*sizes)
    expect_equal(
        whole_number(phase6.kv_block_bytes(*sizes), "kv_block_bytes", situation),
        expected,
        rule="A block holds K and V of its tokens, for every layer and K/V head.",
        situation=situation,
        hint="how many numbers are K and V of one token in one layer, how many tokens and layers are in a block, and "
        "how many bytes is a number?",
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
    situation = f"total={total:,}  free={free:,}  gpu_memory_utilization={share}  block_bytes={block_bytes:,}"
    expect_equal(
        whole_number(phase6.num_blocks_that_fit(total, free, share, block_bytes), "num_blocks_that_fit", situation),
        expected,
        rule="The engine may use a share of all memory; what is taken already counts against that share.",
        situation=situation,
        hint="the share of all memory, less what is taken, in whole blocks: which of the three is other in your code?",
    )


@pytest.mark.parametrize(
    ("total", "free", "share", "block_bytes"),
    [
        (1000, 700, 0.5, 101),
        (1000, 700, 0.5, 150),
        (1000, 300, 0.5, 10),
        (1000, 990, 0.5, 501),
        (80_000, 40_000, 0.25, 3),
    ],
)
def test_no_room_is_refused_with_all_the_numbers(
    phase6: ModuleType, total: int, free: int, share: float, block_bytes: int
) -> None:
    situation = f"total={total}  free={free}  gpu_memory_utilization={share}  block_bytes={block_bytes}"
    try:
        num_blocks = phase6.num_blocks_that_fit(total, free, share, block_bytes)
    except ValueError as error:
        message = str(error)
    else:
        lab_failure(
            rule="If not even two blocks fit, num_blocks_that_fit raises ValueError.",
            situation=situation,
            expected="ValueError",
            yours=f"{num_blocks} blocks",
            hint="how many blocks fit here, and one of them is the null block?",
        )
    named = numbers_named(message)
    needed = {
        f"total_bytes {total}": total in named,
        f"free_bytes {free}, or the {total - free} that are taken": free in named or total - free in named,
        f"gpu_memory_utilization {share} or {share:.0%}": share in named,
        f"block_bytes {block_bytes}": block_bytes in named,
    }
    expect_equal(
        needed,
        dict.fromkeys(needed, True),
        rule="The error names all the numbers, in bytes and not rounded: its reader must see which of them to change.",
        situation=f"{situation}\nyour message: {message}",
        hint="which of the numbers would you need to find out why there is no room?",
    )
