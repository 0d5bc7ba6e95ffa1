"""Graded tests of task 6.3."""

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from course.labtest.phase6.reference_attention import (
    as_the_model_gives_it,
)
from course.labtest.support import expect_rows


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small are computed ten times faster by one thread than by several that wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.mark.parametrize(("block_size", "num_kv_heads"), [(4, 1), (4, 3), (1, 2), (16, 2)])
@pytest.mark.parametrize("slots", [[5], [9, 2, 14, 3, 8], [15, 0, 7], [4, 6, 5, 7]], ids=str)
def test_write_fills_the_given_slots_in_place(
    phase6: ModuleType, block_size: int, num_kv_heads: int, slots: list[int]
) -> None:
    generator = torch.Generator().manual_seed(1)
    shape = (16 // block_size, block_size, num_kv_heads, 2)
    caches = [torch.randn(shape, generator=generator) for _ in range(2)]
    new = [torch.randn((len(slots), num_kv_heads, 2), generator=generator) for _ in range(2)]
    expected = [cache.clone() for cache in caches]
    for token, slot in enumerate(slots):
        for cache, numbers in zip(expected, new, strict=True):
            cache[slot // block_size, slot % block_size] = numbers[token]
    phase6.write_kv(*(as_the_model_gives_it(numbers) for numbers in new), *caches, torch.tensor(slots))
    wrong = [
        [slot for slot in range(16) if not torch.equal(yours.flatten(0, 1)[slot], right.flatten(0, 1)[slot])]
        for yours, right in zip(caches, expected, strict=True)
    ]
    expect_rows(
        {"slots with wrong K": (wrong[0], []), "slots with wrong V": (wrong[1], [])},
        rule="Token t goes to slot_mapping[t] of the caches that were handed in; no other slot changes.",
        situation=f"caches of {list(shape)}, slot_mapping {slots}",
        hint="does your code write into the cache itself, or into a copy of it?"
        if wrong[0] == wrong[1]
        else "one of the two caches is right: what do you do differently for the other?",
    )
