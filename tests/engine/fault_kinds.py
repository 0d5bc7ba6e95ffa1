"""Single faults in one part of a running engine: what the part returns or changes when it fails once."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.scheduler import Scheduler

Call = Callable[..., Any]
Spoil = Callable[[Scheduler, random.Random, Any], Any]  # maps a part's real return value to a faulty one
NOTHING = object()  # the fault did not apply to this call


@dataclass(frozen=True)
class FaultKind:
    """A fault in the method `part.method`. `instead` replaces the call; otherwise `spoil` changes its result."""

    name: str
    part: str
    method: str
    spoil: Spoil
    instead: bool = False


def of_row(change: Callable[[Scheduler, random.Random, Any, list[Any]], Any]) -> Spoil:
    def spoil(scheduler: Scheduler, rng: random.Random, batch: list[Any]) -> Any:
        if not batch:
            return NOTHING
        place = rng.randrange(len(batch))
        changed = change(scheduler, rng, batch[place], batch)
        if changed is NOTHING:
            return NOTHING
        return [*batch[:place], *changed, *batch[place + 1 :]]

    return spoil


def _another_table(scheduler: Scheduler, rng: random.Random, row: Any, batch: list[Any]) -> Any:
    others = [one for one in batch if one is not row and len(one.block_ids) >= len(row.block_ids)]
    return [replace(row, block_ids=list(rng.choice(others).block_ids))] if others else NOTHING


def of_kept(change: Callable[[list[int], list[int]], None]) -> Spoil:
    """Change the newest tokens of two requests (or of one, twice) after phase 1 has appended them."""

    def spoil(scheduler: Scheduler, rng: random.Random, kept: dict[str, list[int]]) -> Any:
        living = [name for name in kept if name in scheduler.requests]
        if not living:
            return NOTHING
        one, other = rng.choice(living), rng.choice(living)
        before = [list(scheduler.requests[name].all_token_ids) for name in (one, other)]
        change(scheduler.requests[one].all_token_ids, scheduler.requests[other].all_token_ids)
        after = [scheduler.requests[name].all_token_ids for name in (one, other)]
        return NOTHING if before == after else kept

    return spoil


def _swap(one: list[int], other: list[int]) -> None:
    one[-1], other[-1] = other[-1], one[-1]


def _forget_stop(scheduler: Scheduler, rng: random.Random, kept: dict[str, list[int]]) -> Any:
    ended = [scheduler.requests[name] for name in kept if scheduler.requests[name].is_finished]
    for request in ended[:1]:
        request.status = RequestStatus.RUNNING
        scheduler.running.append(request)
    return kept if ended else NOTHING


def _stop_early(scheduler: Scheduler, rng: random.Random, kept: dict[str, list[int]]) -> Any:
    living = [scheduler.requests[name] for name in kept if not scheduler.requests[name].is_finished]
    for request in living[:1]:
        request.all_token_ids.pop()
        kept[request.request_id] = []
    return kept if living else NOTHING


def _free_block_as_hit(scheduler: Scheduler, rng: random.Random, hit: list[int]) -> Any:
    free = [one for one in scheduler.kv.free_block_ids() if one not in hit]
    return [*hit, rng.choice(free)] if free else NOTHING


def _foreign_hit(scheduler: Scheduler, rng: random.Random, hit: list[int]) -> Any:
    cached = [one for one in scheduler.prefix_cache.cached_blocks() if one not in hit]
    return [*hit[:-1], rng.choice(cached)] if hit and cached else NOTHING


def plus(change: float) -> Spoil:
    return lambda scheduler, rng, number: NOTHING if number == 0 else number + change


def _other_table(scheduler: Scheduler, rng: random.Random, table: list[int]) -> Any:
    tables = [scheduler.block_tables(one.request_id)[0] for one in scheduler.running]
    others = [one for one in tables if one != table and len(one) >= len(table) > 0]
    return list(rng.choice(others)) if others else NOTHING


KINDS = (
    FaultKind("a row is lost", "", "start_step", of_row(lambda s, rng, row, batch: [])),
    FaultKind("a row stands twice", "", "start_step", of_row(lambda s, rng, row, batch: [row, row])),
    FaultKind(
        "a row starts a token early",
        "",
        "start_step",
        of_row(lambda s, rng, row, b: [replace(row, num_computed_tokens=row.num_computed_tokens - 1)]),
    ),
    FaultKind(
        "a row starts a token late",
        "",
        "start_step",
        of_row(lambda s, rng, row, b: [replace(row, num_computed_tokens=row.num_computed_tokens + 1)]),
    ),
    FaultKind(
        "a row is a token short",
        "",
        "start_step",
        of_row(lambda s, rng, row, b: [replace(row, num_scheduled_tokens=row.num_scheduled_tokens - 1)]),
    ),
    FaultKind(
        "a row samples, or does not, against the rule",
        "",
        "start_step",
        of_row(lambda s, rng, row, b: [replace(row, needs_token=not row.needs_token)]),
    ),
    FaultKind("a row has another request's table", "", "start_step", of_row(_another_table)),
    FaultKind("tokens of two requests are swapped", "functions", "update_from_output", of_kept(_swap)),
    FaultKind("a token is lost", "functions", "update_from_output", of_kept(lambda one, other: one.__delitem__(-1))),
    FaultKind("a token is doubled", "functions", "update_from_output", of_kept(lambda one, other: one.append(one[-1]))),
    FaultKind("a stop is missed", "functions", "update_from_output", _forget_stop),
    FaultKind("a token is dropped and not reported", "functions", "update_from_output", _stop_early),
    FaultKind("a hit has a free block", "prefix_cache", "find_longest_cache_hit", _free_block_as_hit),
    FaultKind("a hit ends in a block of another prefix", "prefix_cache", "find_longest_cache_hit", _foreign_hit),
    FaultKind("a block keeps its hash when it is taken", "prefix_cache", "evict", lambda s, r, a: False, instead=True),
    FaultKind("a block table is another's", "kv", "block_ids", _other_table),
    FaultKind("blocks are not freed", "kv", "free", lambda s, rng, answer: None, instead=True),
    FaultKind("one token too many is granted", "chunks", "num_new_tokens", plus(1)),
    FaultKind("one token too few is granted", "chunks", "num_new_tokens", plus(-1)),
    FaultKind("half a token too many is granted", "chunks", "num_new_tokens", plus(0.5)),
    FaultKind(
        "a sample is due, or not, against the rule", "chunks", "should_sample", lambda s, rng, is_due: not is_due
    ),
    FaultKind("a request is not queued", "waiting", "add_request", lambda s, rng, answer: None, instead=True),
    FaultKind("a victim is not queued", "waiting", "prepend_request", lambda s, rng, answer: None, instead=True),
)


def install(scheduler: Scheduler, kind: FaultKind, number: int, rng: random.Random) -> Callable[[], bool]:
    """Make one call fail: the first, counting from the `number`-th, to which the fault applies.

    The returned function reports whether the fault has been applied.
    """
    owner: Any = getattr(scheduler, kind.part) if kind.part else scheduler
    inner: Call = getattr(owner, kind.method)
    state = {"left": number, "fired": False}

    def erring(*arguments: Any, **named: Any) -> Any:
        is_due = state["left"] == 0 and not state["fired"]
        state["left"] = max(0, state["left"] - 1)
        answer = None if kind.instead and is_due else inner(*arguments, **named)
        spoilt = kind.spoil(scheduler, rng, answer) if is_due else NOTHING
        state["fired"] = bool(state["fired"] or spoilt is not NOTHING)
        return answer if spoilt is NOTHING else spoilt

    if kind.part == "functions":
        scheduler.functions = replace(scheduler.functions, **{kind.method: erring})
    else:
        setattr(owner, kind.method, erring)
    return lambda: bool(state["fired"])
