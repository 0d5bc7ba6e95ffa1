"""Runs phase 14's cases for the graded tests and the judge; each function returns its observations."""

from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.electives.releases.release_functions import RoomAsked
from mini_vllm_labs.grading.plays.plain import number

Ints = Sequence[int]
Step = tuple[bool, int, bool, int]
Seen = dict[str, object]  # plain JSON


def thresholds(phase14: ModuleType, threshold: int, most: int, is_adaptive: bool, numbers: Ints) -> Seen:
    """Report the threshold for each number of requests."""
    return {f"{one} requests": number(phase14.threshold_of_step(threshold, one, most, is_adaptive)) for one in numbers}


def freed(phase14: ModuleType, block_ids: Ints, with_content: Ints) -> Seen:
    """Report both lists, and whether the arguments are unchanged, even after the lists are lengthened."""
    given, content = list(block_ids), set(with_content)
    front, back = phase14.order_freed(given, content)
    seen: Seen = {"to the front": list(map(int, front)), "to the back": list(map(int, back))}
    for found in (front, back):
        found.append(0)
    is_kept = (given, content) == (list(block_ids), set(with_content))
    return seen | {"arguments, when the lists are lengthened": "as before" if is_kept else "changed"}


def rooms(
    phase14: ModuleType,
    blocks: Ints,
    sequence: int | str,
    watermark: float,
    how: str,
    free: Ints,
) -> Seen:
    """Report the answer for each number of free blocks.

    `blocks` contains three block counts: blocks for the step, promised blocks, and blocks on the GPU. `sequence` is
    "no" if the whole sequence is not tested. `how` contains "running", "load" or both.
    """
    for_step, promised, of_gpu = blocks
    known = sequence if isinstance(sequence, int) else None
    return {
        f"{num_free} free": bool(
            phase14.has_room(
                RoomAsked(for_step, known, promised, num_free, of_gpu, watermark, "load" in how, "running" in how)
            )
        )
        for num_free in free
    }


def left(phase14: ModuleType, running: Sequence[str], current: str, victims: Sequence[str]) -> Seen:
    """Report the remaining requests, and whether the arguments are unchanged."""
    given, gone = list(running), set(victims)
    found = phase14.requests_left(given, copied(current), gone)
    seen: Seen = {"requests left": [str(one) for one in found]}
    found.append("")
    is_kept = (given, gone) == (list(running), set(victims))
    return seen | {"arguments, when the list is lengthened": "as before" if is_kept else "changed"}


def copied(text: str) -> str:
    """Return an equal string that is a new object, if it is longer than one character."""
    return "".join(list(text))


def paces(phase14: ModuleType, interval: int, steps: Sequence[Step]) -> Seen:
    """For each step, report whether prompts are held, given the step's decodes, tokens, prompts and queue.

    The last value is -1 for a step that did not check the queue.
    """
    pacer, seen = phase14.PrefillPacer(interval), dict[str, object]()
    phase14.PrefillPacer(interval + 1).planned(5, True, 3)  # reveals state that is stored on the class
    for place, (has_decodes, num_tokens, has_prompt, num_left_waiting) in enumerate(steps, start=1):
        seen[f"step {place}: prompts are held"] = bool(pacer.holds(has_decodes))
        pacer.planned(num_tokens, has_prompt, None if num_left_waiting < 0 else num_left_waiting)
    return seen


def cached(phase14: ModuleType, span: Ints, prompt: int, junction: int, sizes: Ints, interval: int) -> Seen:
    """Report the blocks that enter the cache. `sizes` contains the window size and the block size in tokens."""
    (first, end), (window, block_size) = span, sizes
    found = phase14.reachable_blocks(
        first,
        end,
        num_prompt_tokens=prompt,
        junction=junction,
        window=window,
        block_size=block_size,
        interval=interval,
    )
    return {"blocks that enter the cache": list(map(int, found))}


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    match task:
        case 1:
            numbers = [rng.randint(0, 3), rng.randint(1, 9), rng.randint(2, 400)]
            return rng.choice((0, 1, rng.randint(1, 40))), rng.randint(1, 900), rng.random() < 0.6, numbers
        case 2:
            block_ids = rng.sample(range(1, rng.choice((30, 90_000))), rng.choice((0, 1, 4, 9, 9, 20)))
            others = [one for one in range(1, 30) if one not in block_ids][:3]
            return block_ids, [one for one in block_ids if rng.random() < 0.5] + others
        case 3:
            for_step, promised, of_gpu = rng.randint(0, 9), rng.choice((0, 3, rng.randint(0, 9))), rng.randint(20, 400)
            sequence = rng.choice(("no", for_step, for_step + rng.randint(0, 9)))
            watermark = rng.choice((0.0, 0.0, round(rng.uniform(0.01, 0.2), 3)))
            edge = (
                (for_step if isinstance(sequence, str) else sequence)
                + rng.choice((0, promised))
                + rng.choice((0, int(watermark * of_gpu)))
            )
            how = rng.choice(("running", "running", "idle", "running, load", "load"))
            free = sorted({max(0, edge + one) for one in (-1, 0, 1, -promised)})
            return [for_step, promised, of_gpu], sequence, watermark, how, free
        case 4:
            running = [f"r{one}" for one in rng.sample(range(1, 40), rng.choice((1, 2, 5, 8, 20)))]
            victims = rng.sample(running, rng.randint(1, min(4, len(running))))
            served = [one for one in running if one not in victims]
            return running, rng.choice([*served, victims[-1]]), victims
        case 5:
            # an earlier step with the prompts of the requests that decode later
            steps: list[Step] = [(False, 9, True, rng.choice((0, 0, 2)))]
            for _ in range(15):
                num_tokens, has_decodes = rng.choice((0, 1, 4, 30)), rng.random() < 0.8
                has_prompt = num_tokens > 0 and rng.random() < 0.4
                steps.append((has_decodes, num_tokens, has_prompt, rng.choice((0, 0, 0, 1, 7, -1))))
            return rng.choice((1, 2, 3, 3, 5)), steps
    block_size = rng.choice((1, 2, 4, 8, 16))
    first, num_blocks = rng.choice((0, 0, 3)), rng.choice((1, 8, 20, 20))
    prompt = max(1, rng.randint(-9, 9) + block_size * rng.randint(1, num_blocks))
    interval = block_size * rng.choice((0, 0, 1, 2, 5)) + rng.choice((0, 0, 0, 1)) * (block_size > 1)
    junction = rng.choice((0, 0, rng.randint(1, num_blocks)))
    return [first, first + num_blocks], prompt, junction, [rng.randint(1, 5 * block_size), block_size], interval
