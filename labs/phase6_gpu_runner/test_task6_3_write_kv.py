"""Graded tests for task 6.3."""

import random
from types import ModuleType

import pytest
import torch

from mini_vllm_labs.grading.labtest.crash_hints import CrashHint, learners_call
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it
from mini_vllm_labs.grading.labtest.phase6.devices import call_on_a_device
from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.plays.phase6_plays import ids_shown


def check_write(
    phase6: ModuleType,
    num_slots: int,
    block_size: int,
    num_kv_heads: int,
    head_dim: int,
    slots: list[int],
    dtype: torch.dtype,
) -> None:
    """Write a token's K and V for each slot into caches full of stale values, then compare every slot."""
    generator = torch.Generator().manual_seed(1)
    shape = (num_slots // block_size, block_size, num_kv_heads, head_dim)
    caches = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    new = [torch.randn((len(slots), num_kv_heads, head_dim), generator=generator).to(dtype) for _ in range(2)]
    old, expected = ([cache.clone() for cache in caches] for _ in range(2))
    for token, slot in enumerate(slots):
        for cache, numbers in zip(expected, new, strict=True):
            cache[slot // block_size, slot % block_size] = numbers[token]
    situation = f"{dtype} caches of {list(shape)}, slot_mapping {ids_shown(slots)}"
    slot_mapping = torch.tensor(slots)
    key, value = map(as_the_model_gives_it, new)
    slot_taken_for_block = CrashHint(
        IndexError,
        "slots are numbered across all blocks. Which block is this slot in, and at which position (rule 2)?",
        word=f"for dimension 0 with size {shape[0]}",
    )
    with learners_call([situation], [slot_taken_for_block]):
        phase6.write_kv(key, value, *caches, slot_mapping)
    wrong = [
        [slot for slot in range(num_slots) if not torch.equal(yours.flatten(0, 1)[slot], right.flatten(0, 1)[slot])]
        for yours, right in zip(caches, expected, strict=True)
    ]
    hint = "what does your code do differently for K and for V?"
    if wrong[0] == wrong[1]:
        hint = "which token belongs in the first of these slots, if any, and what did your code write there?"
    if all(map(torch.equal, caches, old)):
        hint = "nothing was written. Does your code write into the cache, or into a copy?"
    expect_equal(
        {"slots with wrong K": wrong[0], "slots with wrong V": wrong[1]},
        {"slots with wrong K": [], "slots with wrong V": []},
        rule="Token t goes to slot_mapping[t] of the given caches; no other slot changes.",
        situation=situation,
        hint=hint,
    )
    before = {"slot_mapping": torch.tensor(slots), "key": new[0], "value": new[1]}
    now = {"slot_mapping": slot_mapping, "key": key, "value": value}
    expect_equal(
        [name for name, tensor in now.items() if not torch.equal(tensor, before[name])],
        [],
        rule="write_kv changes nothing but the caches: the next layer uses the same slot_mapping.",
        situation=f"{situation}\ncompared: which of your arguments were changed",
        hint="which of your operations works in place? In torch their names end in `_`.",
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("block_size", "num_kv_heads"), [(4, 1), (4, 3), (1, 2), (16, 2)])
@pytest.mark.parametrize("slots", [[5], [9, 2, 14, 3, 8], [15, 0, 7], [4, 6, 5, 7]], ids=str)
def test_write_fills_the_given_slots_in_place(
    phase6: ModuleType, block_size: int, num_kv_heads: int, slots: list[int], dtype: torch.dtype
) -> None:
    check_write(phase6, 16, block_size, num_kv_heads, 2, slots, dtype)


@pytest.mark.parametrize(("num_slots", "num_kv_heads", "head_dim"), [(4096, 1, 5), (1024, 8, 64), (1024, 5, 129)])
def test_a_large_step_fills_its_slots(phase6: ModuleType, num_slots: int, num_kv_heads: int, head_dim: int) -> None:
    slots = random.Random(num_slots).sample(range(16, num_slots), num_slots // 2)
    check_write(phase6, num_slots, 16, num_kv_heads, head_dim, slots, torch.float32)


def test_write_makes_its_tensors_on_the_device_of_its_arguments(phase6: ModuleType) -> None:
    arguments = [*torch.zeros(2, 3, 1, 2), *torch.zeros(2, 4, 4, 1, 2), torch.tensor([9, 2, 14])]
    call_on_a_device(phase6.write_kv, *arguments, name="write_kv", situation="three tokens, slot_mapping [9, 2, 14]")
