"""Runs phase 8's cases for the graded tests and the judge, call by call, one function per kind of case."""

import re
from collections.abc import Iterator, Sequence
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm_labs.grading.plays.moments import Living, told, with_odd_fields
from mini_vllm_labs.grading.plays.plain import number, numbers
from mini_vllm_labs.grading.plays.support import changed, fields_of, make_request, yes_or_no
from mini_vllm_labs.grading.plays.work import left_behind

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, followed by observations
# start, known tokens, placeholders, rejected, drafts, whether it needs a token
Share = tuple[int, int, int, int, Sequence[int], bool]
CALL = re.compile(
    r"(take|fill|over) ?(\d*): (\S+) (\d+)(?:\+(\d+))?(?: of (\d+))? at (\d+)(?: with (\d+))?(?: past (\d+))?"
)
METHODS = {"take": "take_placeholders", "fill": "fill_placeholders", "over": "is_surely_over"}
MAY_CHANGE = {"take": ("num_output_placeholders", "spec_token_ids"), "fill": ("num_output_placeholders",), "over": ()}
ASKED_ABOUT = ("num_output_placeholders", "spec_token_ids", "sampling_params")
NUMBERS = ("num_computed_tokens", "num_scheduled_tokens", "draft_token_ids")
BLOCKS, OTHER_TABLE = [7, 3, 9], [0, 4, 9]  # the second table belongs to a different group of layers, as in phase 12


def scheduling_of(phase8: ModuleType, num_speculative_tokens: int) -> AsyncScheduling:
    """Make an object for this number of drafts, then a second one for more drafts."""
    scheduling: AsyncScheduling = phase8.PlaceholderScheduling(num_speculative_tokens)
    phase8.PlaceholderScheduling(num_speculative_tokens + 3)  # reveals state that is stored on the class
    return scheduling


def placeholders(phase8: ModuleType, num_speculative_tokens: int, calls: Sequence[str]) -> Steps:
    """Call the methods for requests that persist, and a new object's methods for copies; report the changes.

    The call "take 2: A 3+1 of 9 at 10 with 4 past 7" plans a step with 2 drafts for A. Request A has 3 prompt tokens, 1
    of 9 generated tokens, 10 computed tokens and 4 placeholders. Its "past 7" seeds the fields that no rule mentions.
    The call "fill 2: ..." applies arrived tokens, and "over: ..." calls `is_surely_over`. The call "change A" sets A's
    placeholder drafts to [17].
    """
    yield f"PlaceholderScheduling({num_speculative_tokens})"
    scheduling, living = scheduling_of(phase8, num_speculative_tokens), Living(Random(0))
    yield {}
    for call in calls:
        if not (match := CALL.fullmatch(call)):
            name = call.removeprefix("change ")
            yield f"{name}.spec_token_ids[:] = [17]"
            if isinstance(drafts := living.known.pop(name).spec_token_ids, list):
                drafts[:] = [17]
            yield drafts_of(living)
            continue
        what, count, name, *counters, past = match.groups()
        drafts = [] if what == "take" else [-1] * num_speculative_tokens
        moments = [request_at(name, *(int(one or 0) for one in counters), drafts=drafts) for _ in range(3)]
        odd = [with_odd_fields(one, past, ASKED_ABOUT) for one in moments[:2]]
        request, given = living.now(moments[0]), [int(count)] if count else []
        yield f"{METHODS[what]}({', '.join([name, *map(str, given)])})   {facts(request)}{odd[0]}"
        asked = [(scheduling, request), *((scheduling_of(phase8, num_speculative_tokens), one) for one in moments[1:])]
        seen = [outcome(one, what, *given, request=about) for one, about in asked]
        yield {label: told("object", *(one[label] for one in seen)) for label in seen[0]} | drafts_of(living, but=name)


def request_at(
    name: str, num_prompt: int, num_outputs: int, max_tokens: int, computed: int, in_flight: int, *, drafts: list[int]
) -> Request:
    """Make a request with these counters; if `max_tokens` is 0, its end is far away."""
    most = max_tokens or num_outputs + 100
    request = make_request(name, num_prompt, num_output_tokens=num_outputs, max_tokens=most)
    request.status = RequestStatus.RUNNING if computed else RequestStatus.PREEMPTED
    request.num_computed_tokens, request.num_output_placeholders = computed, in_flight
    request.spec_token_ids = drafts[:]
    return request


def facts(request: Request) -> str:
    return (
        f"{request.request_id}: {request.status.name}, {request.num_prompt_tokens} prompt and "
        f"{request.num_output_tokens} generated tokens known, max_tokens {request.sampling_params.max_tokens}, "
        f"{request.num_computed_tokens} computed, {request.num_output_placeholders} placeholders"
    )


def outcome(scheduling: AsyncScheduling, what: str, *given: int, request: Request) -> Seen:
    """Make a call; return its answer or the fields that it sets, and all other changes."""
    before = {name: value for name, value in fields_of(request).items() if name not in MAY_CHANGE[what]}
    answer = getattr(scheduling, METHODS[what])(request, *given)
    seen: Seen = {"is_surely_over": yes_or_no(answer)} if what == "over" else {}
    if what != "over":
        seen["num_output_placeholders"] = number(request.num_output_placeholders)
    if what == "take":
        seen["spec_token_ids"] = numbers(request.spec_token_ids)
    return seen | {"arguments": changed(request, before)}


def drafts_of(living: Living, but: str = "") -> Seen:
    """Return the drafts of all requests except `but`."""
    others = {name: numbers(one.spec_token_ids) for name, one in living.known.items() if name != but}
    return {"drafts of the others": others} if others else {}


def shares(phase8: ModuleType, calls: Sequence[Share], past: int = 0) -> Steps:
    """Correct shares, both in a batch and alone; report the new share, and changes to the old one.

    A call is (start, known tokens, stand-ins, rejected drafts, current drafts, whether it needs a token). `past` seeds
    the fields that requests carry over from earlier steps.
    """
    living = Living(Random(past))
    for place, call in enumerate(calls):
        start, num_known, num_stand_ins, num_rejected, drafts, _ = call
        num_tokens = start - num_rejected + num_known
        # the following step may already have been planned as well
        computed = start + num_known + num_stand_ins + 3 * (place % 2)
        counters = (min(3, num_tokens), max(0, num_tokens - 3), 0, computed, num_stand_ins)
        moments = [request_at("A", *counters, drafts=[-1] * num_stand_ins) for _ in range(3)]
        odd = [with_odd_fields(one, f"{past} {place}" if past else None) for one in moments[:2]]
        request = living.now(moments[0])
        yield (
            f"correct_share({num_known + num_stand_ins} tokens from {start} on, the last {num_stand_ins} of them "
            f"stand-ins; {num_rejected}, {[*drafts]})   its request's own counter is {computed}{odd[0]}"
        )
        given = (list if place % 2 else tuple)(drafts)
        seen = [corrected(phase8, call, given, one) for one in (request, *moments[1:])]
        yield {label: told("object", *(one.get(label) for one in seen)) for label in seen[0]}


def corrected(phase8: ModuleType, call: Share, drafts: Sequence[int], request: Request) -> Seen:
    """Correct a request's share; return the new share's contents and all changes to the arguments."""
    start, num_known, num_stand_ins, num_rejected, _, needs_token = call
    tables, given = [BLOCKS[:], OTHER_TABLE[:]], drafts[:]
    share = ScheduledRequest(
        request, start, num_known + num_stand_ins, tables[0], needs_token, [-1] * num_stand_ins, block_tables=tables
    )
    planned, before = held(share), fields_of(request)
    result = phase8.correct_share(share, num_rejected, given)
    changes = changed(request, before).replace("as before", "") + ", the share" * (held(share) != planned)
    changes += ", the drafts" * (given != drafts)
    seen: Seen = {"correct_share": type(result).__name__}
    if isinstance(result, ScheduledRequest):
        kept = {
            "request": result.request is request,
            "block_ids": numbers(result.block_ids) == BLOCKS,
            "block_tables": [*map(numbers, result.block_tables)] == [BLOCKS, OTHER_TABLE],
            "needs_token": result.needs_token == needs_token,
        }
        seen |= dict(
            zip(("num_computed_tokens", "num_scheduled_tokens", "draft_token_ids"), held(result), strict=False)
        )
        seen["not kept"] = [name for name, is_kept in kept.items() if not is_kept]
    return seen | {"arguments": f"changed: {changes.strip(', ')}" if changes else "as before"}


def held(share: ScheduledRequest) -> list[object]:
    return [
        number(share.num_computed_tokens),
        number(share.num_scheduled_tokens),
        numbers(share.draft_token_ids),
        numbers(share.block_ids),
        [*map(numbers, share.block_tables)],
        bool(share.needs_token),
    ]


def leaves(phase8: ModuleType, num_requests: int) -> Seen:
    """Start and end requests, making every call for each; report what they leave behind."""
    scheduling = scheduling_of(phase8, 2)

    def use(name: str) -> None:
        request = request_at(name, 3, 0, 1, 3, 0, drafts=[])
        scheduling.take_placeholders(request, 0)
        scheduling.is_surely_over(request)
        phase8.correct_share(ScheduledRequest(request, 3, 3, [1], needs_token=True, draft_token_ids=[-1, -1]), 1, [7])
        scheduling.fill_placeholders(request, 1)

    return left_behind(phase8, use, scheduling, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    if task == 3:
        return [_random_share(rng) for _ in range(6)], rng.randrange(1, 10**6)
    most = rng.choice((0, 1, 2, 3, 5, 16))
    return most, [(_random_end if task == 2 else _random_step)(rng, most) for _ in range(10)]


def _random_step(rng: Random, most: int) -> str:
    """Draw a call about a planned step: a chunk, a decode, or one with drafts, possibly of a preempted request."""
    num_prompt = rng.choice((rng.randint(1, 40), rng.randint(1, 40), 2_000))
    num_outputs, num_drafts = rng.choice((0, rng.randint(1, 40))), rng.randint(0, most)
    places = rng.choice((0, 1, 1 + most))
    computed = num_prompt + num_outputs + places + num_drafts
    if not num_drafts and not places:  # only known tokens are split into chunks
        computed = rng.choice((computed, computed - 1, num_prompt, rng.randint(1, computed)))
    what = f"take {num_drafts}"
    if rng.random() < 0.3:
        what, computed = f"fill {rng.randint(0, places)}", rng.choice((0, computed, computed))
    return f"{what}: {rng.choice('AAB')} {num_prompt}+{num_outputs} at {computed} with {places}{_random_past(rng)}"


def _random_end(rng: Random, most: int) -> str:
    """Draw a call about a request near its end, with or without a step in flight and drafts."""
    num_prompt, num_outputs = rng.randint(1, 30), rng.choice((rng.randint(0, 12), rng.randint(0, 12), 300, 3_000))
    max_tokens, num_drafts = num_outputs + rng.choice((1, 1, 2, 2, 3, 500)), rng.randint(0, most)
    num_tokens, places = num_prompt + num_outputs, (1 + num_drafts) * (rng.random() < 0.7)
    computed = num_tokens + num_drafts if places else rng.randrange(num_tokens)
    told_of = f"{num_prompt}+{num_outputs} of {max_tokens} at {computed} with {places}"
    return f"over: {rng.choice('AAB')} {told_of}{_random_past(rng)}"


def _random_past(rng: Random) -> str:
    return rng.choice(("", f" past {rng.getrandbits(30) + 1}"))


def _random_share(rng: Random) -> Share:
    num_stand_ins = rng.choice((0, 1, 2, 5, 18))
    drafts = [rng.choice((rng.randint(0, 40), 151_643)) for _ in range(rng.choice((rng.randint(0, 6), 17)))]
    num_known = 1 if num_stand_ins else rng.choice((rng.randint(1, 30), 4_000))
    needs_token = num_stand_ins > 0 or rng.random() < 0.5
    return rng.choice((rng.randint(9, 60), 9_000)), num_known, num_stand_ins, rng.randint(0, 5), drafts, needs_token
