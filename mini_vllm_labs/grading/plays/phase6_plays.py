"""Runs the cases of tasks 6.1, 6.2 and 6.6 for the graded tests and the judge.

"A 3+4 of 9 in 5 6" describes a share of a step: 3 tokens computed, 4 more in this step, 9 known, blocks 5 and 6.
The tests and questions of tasks 6.3 to 6.5 are code, because tensors are not plain data.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.plays.named_numbers import numbers_named
from mini_vllm_labs.grading.plays.plain import is_list, number, numbers
from mini_vllm_labs.grading.plays.support import fields_of, make_request, with_a_past
from mini_vllm_labs.grading.plays.support import numbers as told_numbers

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # lines describing a call, followed by observations
SHARE = re.compile(
    r"(\S+) (\d+)\+(\d+)(?: of (\d+))?(?: outputs (\d+))?(?: from (\d+))?(?: counts (\d+))?(?: past (\d+))?"
    r"( no token)? in ([\d -]+)"
)
FLAT = ("input_ids", "positions", "query_start_loc")
SIZES = {
    "kv_block_bytes": ("num_layers", "block_size", "num_kv_heads", "head_dim", "bytes_per_number"),
    "num_blocks_that_fit": ("total_bytes", "free_bytes", "gpu_memory_utilization", "block_bytes"),
}
MAX_IDS, MAX_ROWS = 12, 8
# the state of a request while its step is computed: an abort does not stop the step
ENDED_OR_NOT = (RequestStatus.RUNNING, RequestStatus.PREEMPTED, RequestStatus.FINISHED_ABORTED)
ABOUT_1_PERCENT = 0.006  # 87.5% may be reported as 88%


def number_of(name: str) -> int:
    """Return 1 for request A, 2 for B, and 17 for a name such as R17."""
    return int(name[1:]) if name[1:] else ord(name) - ord("A") + 1


def row_of(
    name: str,
    num_computed: int,
    num_scheduled: int,
    block_ids: Sequence[int],
    *,
    num_more: int = 0,
    num_outputs: int = 0,
    samples: bool = True,
    first_token: int = 0,
) -> ScheduledRequest:
    """Make one request's share of a step; `num_more` of its tokens are left for later steps.

    The last `num_outputs` tokens are generated. Request A's tokens start at 100, and B's at 200.
    """
    num_prompt = num_computed + num_scheduled + num_more - num_outputs
    first_token = first_token or 100 * number_of(name)
    request = make_request(name, 0, token_ids=range(first_token, first_token + num_prompt))
    request.all_token_ids += range(first_token + 50, first_token + 50 + num_outputs)
    request.num_computed_tokens = num_computed + num_scheduled  # in the state in which the scheduler leaves it
    return ScheduledRequest(request, num_computed, num_scheduled, list(block_ids), samples)


def batch_of(told: str) -> list[ScheduledRequest]:
    """Parse a text into shares; "R*99 7+1 in 5" describes 99 of them, R1 to R99."""
    rows = list[ScheduledRequest]()
    for one in told.split(", "):
        match = SHARE.fullmatch(one)
        assert match, one
        who, computed, new, known, outputs, first, counts, past, no_token, blocks = match.groups()
        name, _, count = who.partition("*")
        more = int(known or 0) - int(computed) - int(new) if known else 0
        for one_name in [f"{name}{place + 1}" for place in range(int(count))] if count else [name]:
            row = row_of(
                one_name,
                int(computed),
                int(new),
                told_numbers(blocks),
                num_more=more,
                num_outputs=int(outputs or 0),
                samples=not no_token,
                first_token=int(first or 0),
            )
            with_a_past(Random(int(past or 0)), row.request)
            row.request.status = ENDED_OR_NOT[int(past or 0) % 3]
            # the second table belongs to a different group of layers, as in phase 12
            row.block_tables = [row.block_ids, [0] * len(row.block_ids)]
            row.request.num_computed_tokens = int(counts or row.request.num_computed_tokens)
            rows.append(row)
    return rows


class LivingRows:
    """Batches of requests that persist; the objects and their block lists change in place."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.tables: dict[str, list[int]] = {}

    def now(self, batch: Sequence[ScheduledRequest]) -> list[ScheduledRequest]:
        """Return the shares, using the requests that persist between calls. A request that starts anew is a new object
        with the old name."""
        rows = list[ScheduledRequest]()
        for row in batch:
            name = row.request.request_id
            if not row.num_computed_tokens:
                self.requests.pop(name, None)
            request, table = self.requests.setdefault(name, row.request), self.tables.setdefault(name, row.block_ids)
            for field in Request.__slots__:
                old, new = getattr(request, field), getattr(row.request, field)
                if isinstance(old, list):
                    old[:] = new
                else:
                    setattr(request, field, new)
            table[:] = row.block_ids
            rows.append(replace(row, request=request, block_ids=table))
        return rows


def describe_rows(batch: Sequence[ScheduledRequest], block_size: int | None = None) -> str:
    lines = [] if block_size is None else [f"block_size={block_size}"]
    for row in batch[:MAX_ROWS]:
        end = row.num_computed_tokens + row.num_scheduled_tokens
        own = row.request.num_computed_tokens
        lines.append(
            f"{row.request.request_id}: num_computed={row.num_computed_tokens}, n={row.num_scheduled_tokens}, "
            f"tokens {ids_shown(row.request.all_token_ids[row.num_computed_tokens : end])}, "
            f"blocks {ids_shown(row.block_ids)}, {'needs a token' if row.needs_token else 'needs no token'}"
            + (f"; the request's own counter is {own}" if own != end else "")
        )
    if len(batch) > MAX_ROWS:
        lines.append(f"... and {len(batch) - MAX_ROWS} more requests")
    return "\n".join(lines)


def ids_shown(ids: Sequence[int]) -> str:
    if len(ids) <= MAX_IDS:
        return str(list(ids))
    return f"[{', '.join(map(str, ids[:3]))}, ..., {ids[-1]}] ({len(ids)})"


def lists(phase6: ModuleType, function: str, block_size: int, steps: Sequence[str]) -> Steps:
    """Call a function for consecutive steps of requests that persist; report the lists it returns and the batch."""
    living, needs_size = LivingRows(), function in ("compute_slot_mapping", "pad_block_tables")
    for told in steps:
        batch = living.now(batch_of(told))
        before = snapshot(batch)
        yield from describe_rows(batch, block_size if needs_size else None).splitlines()
        yield f"{function}(batch{', block_size' * needs_size})"
        answer = getattr(phase6, function)(batch, *[block_size] * needs_size)
        after = snapshot(batch)
        changed = [name for name in before if after[name] != before[name]]
        yield seen_of(function, answer) | {"the batch": f"changed: {', '.join(changed)}" if changed else "as before"}


def snapshot(batch: Sequence[ScheduledRequest]) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in batch:
        name = row.request.request_id
        found |= {f"block_ids of {name}": [*row.block_ids], f"request {name}": fields_of(row.request)}
        found[f"share of {name}"] = row.num_computed_tokens, row.num_scheduled_tokens, row.needs_token
    return found


def seen_of(function: str, answer: Any) -> Seen:
    """Return an answer's lists, keyed by name."""
    if function == "flatten_tokens" and is_list(answer) and len(answer) == len(FLAT):
        return {name: numbers(part) for name, part in zip(FLAT, answer, strict=True)}
    if function == "pad_block_tables" and is_list(answer):
        tables = [numbers(table) for table in answer]
        lengths = [len(table) if isinstance(table, list) else table for table in tables]
        return {"lengths of the tables": lengths, "tables": tables}
    return {function: numbers(answer)}


def sizing(phase6: ModuleType, function: str, given: Sequence[float]) -> Steps:
    """Compute the size of a block or the cache; report the result, or the numbers in the error."""
    told = dict(zip(SIZES[function], given, strict=True))
    yield f"{function}({', '.join(f'{name}={value:,}' for name, value in told.items())})"
    try:
        seen: Seen = {"outcome": number(getattr(phase6, function)(*given))}
    except ValueError as error:
        if function == "kv_block_bytes":
            raise
        message, (total, free, share, block_bytes) = str(error), given
        named = numbers_named(message)
        yield f"  ValueError: {message}"
        seen = {
            "outcome": "ValueError",
            "names total_bytes": total in named,
            "names free_bytes, or what is taken": bool({free, total - free} & named),
            "names gpu_memory_utilization": any(abs(one - share) < ABOUT_1_PERCENT for one in named),
            "names block_bytes": block_bytes in named,
        }
    yield seen


def random_step(rng: Random, block_size: int) -> str:
    """Draw decodes, chunks and whole prompts in any order, on shuffled blocks; some tables have spare blocks."""
    unused, shares = rng.sample(range(1, 200), 199), list[str]()
    for name in "ABCDE"[: rng.randint(1, 5)]:
        num_computed = rng.choice((0, block_size - 1, block_size, rng.randint(1, 12)))
        num_new = rng.choice((1, 1, block_size, rng.randint(1, 9)))
        end, num_more = num_computed + num_new, rng.choice((0, 0, rng.randint(1, 6)))
        # The scheduler may already have planned the next step, preempted the request, or rolled drafts back.
        counts = rng.choice((end, end, end + 1, end + 5, 0, max(0, end - 2)))
        blocks = [unused.pop() for _ in range(cdiv(end + num_more, block_size) + rng.choice((0, 0, 1)))]
        shares.append(
            f"{name} {num_computed}+{num_new} of {end + num_more} outputs {rng.randint(0, num_computed)} "
            f"from {rng.choice((100 * number_of(name), 65_530, 151_000))} counts {counts} past {rng.randrange(999)}"
            f"{' no token' * bool(num_more)} in {' '.join(map(str, blocks))}"
        )
    return ", ".join(rng.sample(shares, len(shares)))


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    if task == 6 and rng.random() < 0.4:
        sizes = rng.randrange(1, 40), rng.choice((4, 8, 16, 32)), rng.randrange(1, 9), rng.choice((8, 64, 128))
        return "kv_block_bytes", [*sizes, rng.choice((2, 4))]
    if task == 6:
        total, share = rng.randrange(10**6, 10**9), rng.choice((0.5, 0.75, 0.875, 1.0))
        free = rng.choice((total, rng.randrange(total)))
        room = max(1, int(total * share) - total + free)  # for zero, one, two or many blocks
        return "num_blocks_that_fit", [
            total,
            free,
            share,
            max(1, room // rng.choice((1, 2, 2, 2, 3, 900)) + rng.choice((0, 0, 1))),
        ]
    function = rng.choice(
        (("flatten_tokens", "select_logits_rows"), ("compute_slot_mapping", "pad_block_tables"))[task - 1]
    )
    block_size = rng.choice((1, 2, 3, 4, 5, 16, 32))
    return function, block_size, [random_step(rng, block_size) for _ in range(rng.randint(1, 4))]
