"""Runs the cases of tasks 7.1 to 7.5 for the graded tests and the judge, call by call."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.plays.counted_text import READS_PER_TOKEN, LookupWork, TooMuchWorkError, text_of
from mini_vllm_labs.grading.plays.plain import number, numbers
from mini_vllm_labs.grading.plays.support import changed, fields_of, make_request, with_a_past
from mini_vllm_labs.grading.plays.support import numbers as numbers_in
from mini_vllm_labs.grading.plays.work import left_behind, work_of

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, followed by observations
Ints = Sequence[int]
Text = Ints | str
KNOWN = 14  # number of tokens in a request, of which 10 are from the prompt
SCHEDULE = re.compile(r"schedule \[(.*)\] at (\d+)(?: with (\d+))?")
ROLL_BACK = re.compile(r"roll back (\d+) (\d+) at (\d+)(?: with (\d+))?")
SMALL, LARGE = (2, 12, 21, 1, 122, 22, 0, 212, 11), (300, 151_643, 1_000_003, 1, 2**16 + 1, 257, 256, 43, 0)
ALIKE = (5, 5 + 2**8, 5 + 2**16)  # differ only in their last bytes
SIZE = 1000
LONG_TEXTS = {
    "all different": [*range(SIZE)],
    "all equal but for the last one": [1] * (SIZE - 1) + [2],
    "1 and 2 in turns, then 1, 1, 3": [1, 2] * (SIZE // 2) + [1, 1, 3],
    "whose newest tokens are at its front": [5, 6, 7, *range(10, SIZE), 5, 6, 7],
}


def new_objects(tokens: Ints) -> list[int]:
    """Return equal numbers as new objects (if above 256), because equal tokens need not be the same object."""
    return [int(str(token)) for token in tokens]


def lookups(phase7: ModuleType, calls: Sequence[tuple[Text, int, int, int]]) -> Steps:
    """Look up texts, each given as (tokens, most drafts, shortest run, longest run); then modify each answer.

    A text that begins with the previous one is the same list, extended. "5-8 100-999" denotes ranges.
    """
    text, known = list[int](), list[int]()
    for given, num_drafts, shortest, longest in calls:
        tokens = numbers_in(given) if isinstance(given, str) else [*given]
        if not known or tokens[: len(known)] != known:
            text = []
        text += new_objects(tokens[len(text) :])
        known = tokens
        yield (
            f"propose_by_lookup({given if isinstance(given, str) else tokens}, num_speculative_tokens={num_drafts}, "
            f"prompt_lookup_min={shortest}, prompt_lookup_max={longest})"
        )
        answer = phase7.propose_by_lookup(text, num_drafts, shortest, longest)
        seen: Seen = {"propose_by_lookup": numbers(answer), "text": "as before" if text == known else "changed"}
        if isinstance(answer, list):
            answer.append(99)
            seen["text, after the caller has changed the answer"] = "as before" if text == known else "changed"
        yield seen


def reads(phase7: ModuleType, what: str) -> Steps:
    """Look up drafts in a long text that counts its reads; report them, and whether few reads were needed."""
    limit = READS_PER_TOKEN * len(LONG_TEXTS[what])
    work, drafts, num_lines = LookupWork(limit), list[Any](), 0
    text = text_of(LONG_TEXTS[what], work)
    yield f"propose_by_lookup(a text of {len(text)} tokens, {what}, 4, 1, 3)"
    with suppress(TooMuchWorkError):
        num_lines = work_of(lambda: drafts.append(phase7.propose_by_lookup(text, 4, 1, 3)), str(phase7.__file__))
    seen: Seen = {"propose_by_lookup": numbers(drafts[0])} if drafts else {}
    yield seen | {f"at most {READS_PER_TOKEN} reads per token": work.count + num_lines <= limit}


def speculation(
    phase7: ModuleType, num_drafts: int, has_kv_cache: bool, in_flight: bool, calls: Sequence[str], past: int = 0
) -> Steps:
    """Make calls about requests with 14 tokens, 10 of them prompt tokens; report the answer and the changes.

    "A schedule [7 0 9] at 17 with 1": 17 computed tokens and 1 placeholder; "A roll back 4 2 at 18" (0 for a victim).
    The call "A plan 3 budget 2" plans a step with as many of 3 drafts as fit. The call "A arrive 1" applies the results
    of the oldest step, with 1 correct draft; with `in_flight`, placeholders are used. Further calls are "A slots
    RUNNING 2", "hits [3 8]" and "A anew".
    """
    yield from Speculating(phase7, num_drafts, has_kv_cache, in_flight, past).play(calls)


class Speculating:
    """Phase 7's scheduling part and its requests."""

    scheduling: Any

    def __init__(self, phase7: ModuleType, num_drafts: int, has_kv_cache: bool, in_flight: bool, past: int) -> None:
        self.phase7, self.settings, self.in_flight = phase7, (num_drafts, has_kv_cache), in_flight
        self.rng, self.past = Random(past), past
        self.requests: dict[str, Request] = {}
        self.steps: dict[str, deque[int]] = {}  # the drafts of each step in flight

    def play(self, calls: Sequence[str]) -> Steps:
        yield f"SpeculativeScheduling{self.settings}, then one with other settings"
        self.scheduling = self.phase7.SpeculativeScheduling(*self.settings)
        # reveals state that is stored on the class
        self.phase7.SpeculativeScheduling(self.settings[0] + 3, not self.settings[1])
        yield {}
        for call in calls:
            name, _, told = call.partition(" ")
            if name == "hits":
                yield from self.hits([int(one) for one in told.strip("[]").split()])
                continue
            if name not in self.requests or told == "anew":
                self.requests[name], self.steps[name] = self.new_request(name), deque()
            request = self.requests[name]
            if match := SCHEDULE.fullmatch(told):
                drafts, computed, placeholders = match.groups()
                yield from self.schedule(request, [int(one) for one in drafts.split()], computed, placeholders)
            elif match := ROLL_BACK.fullmatch(told):
                yield from self.roll_back(request, *match.groups())
            elif told.startswith("plan"):
                yield from self.plan(request, *numbers_in(told.removeprefix("plan ").replace("budget ", "")))
            elif told.startswith("arrive"):
                yield from self.arrive(request, int(told.split()[1]))
            elif told.startswith("slots"):
                yield from self.slots(request, *told.split()[1:])

    def new_request(self, name: str) -> Request:
        request = make_request(name, 10, num_computed_tokens=1, num_output_tokens=KNOWN - 10)
        if self.past:
            with_a_past(self.rng, request)
        request.num_output_placeholders, request.spec_token_ids = int(self.in_flight), []
        request.num_computed_tokens = KNOWN - 1 + int(self.in_flight)
        self.steps[name] = deque([0] * self.in_flight)
        return request

    def schedule(self, request: Request, drafts: list[int], computed: str, placeholders: str | None) -> Steps:
        request.num_computed_tokens, request.num_output_placeholders = int(computed), int(placeholders or 0)
        owned = request.spec_token_ids = new_objects(drafts)
        request.status = RequestStatus.RUNNING
        yield f"schedule_drafts({told_of(request)})"
        yield self.scheduled(request, owned)[1]

    def scheduled(self, request: Request, owned: list[int]) -> tuple[int, Seen]:
        """Call `schedule_drafts`; return how many drafts it returned, and the observations."""
        drafts, before = [*owned], fields_of(request)
        before.pop("spec_token_ids")
        answer = self.scheduling.schedule_drafts(request)
        seen: Seen = {
            "schedule_drafts": numbers(answer),
            "spec_token_ids": [*request.spec_token_ids],
            "the list that it was": "as before" if owned == drafts else f"changed to {owned}",
            "arguments": changed(request, before),
        }
        if isinstance(request.spec_token_ids, list):
            request.spec_token_ids.append(8)  # represents the next draft
            seen["schedule_drafts, after the next draft"] = numbers(answer)
            request.spec_token_ids.clear()
        return len(answer), seen

    def roll_back(
        self, request: Request, num_drafts: str, num_sampled: str, computed: str, placeholders: str | None
    ) -> Steps:
        request.num_computed_tokens, request.num_output_placeholders = int(computed), int(placeholders or 0)
        request.status = RequestStatus.RUNNING if int(computed) else RequestStatus.PREEMPTED
        yield from self.rolled_back(request, int(num_drafts), int(num_sampled))

    def rolled_back(self, request: Request, num_drafts: int, num_sampled: int) -> Steps:
        yield f"roll_back({told_of(request)}, {num_drafts}, {num_sampled})"
        before = fields_of(request)
        self.scheduling.roll_back(request, num_drafts, num_sampled)
        counters = {name: number(getattr(request, name)) for name in ("num_computed_tokens", "num_output_placeholders")}
        yield counters | {"arguments": changed(request, {k: v for k, v in before.items() if k not in counters})}

    def plan(self, request: Request, num_given: int, budget: int) -> Steps:
        """Plan a step and add placeholders for its results, as phase 8 does."""
        owned = request.spec_token_ids = (
            [-1] * num_given if self.in_flight else new_objects(range(500, 500 + num_given))
        )
        request.num_computed_tokens += min(1 + num_given, budget)
        yield f"schedule_drafts({told_of(request)})   a step with {num_given} drafts and a budget of {budget}"
        num_drafts, seen = self.scheduled(request, owned)
        request.num_output_placeholders += (1 + num_drafts) * self.in_flight
        self.steps[request.request_id].append(num_drafts)
        yield seen

    def arrive(self, request: Request, num_right: int) -> Steps:
        """Apply the results of the oldest in-flight step."""
        num_drafts = self.steps[request.request_id].popleft()
        num_sampled = 1 + min(num_right, num_drafts)
        if num_drafts:
            yield from self.rolled_back(request, num_drafts, num_sampled)
        request.all_token_ids += range(7000, 7000 + num_sampled)
        request.num_output_placeholders -= num_sampled * self.in_flight

    def slots(self, request: Request, status: str, num_given: str, computed: str = "13") -> Steps:
        request.status, request.spec_token_ids = RequestStatus[status], [6] * int(num_given)
        request.num_computed_tokens = int(computed) * (status == "RUNNING")
        yield f"num_lookahead_tokens({told_of(request)})"
        before = fields_of(request)
        answer = number(self.scheduling.num_lookahead_tokens(request))
        yield {"num_lookahead_tokens": answer, "arguments": changed(request, before)}

    def hits(self, hit_blocks: list[int]) -> Steps:
        yield f"usable_hit_blocks({hit_blocks})"
        given = [*hit_blocks]
        answer = numbers(self.scheduling.usable_hit_blocks(given))
        yield {"usable_hit_blocks": answer, "hit_blocks": "as before" if given == hit_blocks else f"changed to {given}"}


def told_of(request: Request) -> str:
    text = f"{request.request_id}: {request.status.name}, {request.num_computed_tokens} computed, "
    text += f"{request.num_tokens} known" + f", {request.num_output_placeholders} placeholders" * bool(
        request.num_output_placeholders
    )
    return text + f", drafts {request.spec_token_ids}" * bool(request.spec_token_ids)


def rows(phase7: ModuleType, batches: Sequence[Sequence[Sequence[Any]]], past: int = 0) -> Steps:
    """Select the logits rows of batches.

    A share is either (id, first, tokens) for a chunk of a prompt, or (id, its tokens, last ones, drafts) for a
    request's last known tokens and drafts.
    """
    rng = Random(past)
    for place, told in enumerate(batches, start=1):
        batch = [share_of(*one, rng=rng if past else None) for one in told]
        order, before = [*batch], [contents(one) for one in batch]
        yield f"select_logits_rows(batch {place}: {'; '.join(map(shown, batch))})"
        answer = phase7.select_logits_rows(batch)
        is_same = order == batch and before == [contents(one) for one in batch]
        yield {"select_logits_rows": numbers(answer), "batch": "as before" if is_same else "changed"}


def share_of(name: str, first: int, size: int, drafts: Ints | None = None, *, rng: Random | None) -> ScheduledRequest:
    if drafts is None:
        share = ScheduledRequest(make_request(name, 20), first, size, [1, 2], needs_token=False)
    else:
        request = make_request(name, max(1, first - 2), num_output_tokens=min(2, first - 1))
        start, size = first - size, size + len(drafts)
        request.num_computed_tokens = start + size
        share = ScheduledRequest(request, start, size, [3, 4], needs_token=True, draft_token_ids=drafts)
        share = share.with_drafts()  # in the form in which the runner passes it
    if rng:  # the scheduler may already have planned the next step, or preempted the request
        with_a_past(rng, share.request).num_computed_tokens += rng.choice((0, 1, 6, -share.request.num_computed_tokens))
    return share


def contents(share: ScheduledRequest) -> object:
    return fields_of(share.request), [*share.block_ids], [*share.draft_token_ids]


def shown(share: ScheduledRequest) -> str:
    num_known = share.num_scheduled_tokens - len(share.draft_token_ids)
    needs = "needs a token" if share.needs_token else "needs no token"
    return f"{share.request.request_id} with {num_known} known, drafts {[*share.draft_token_ids]}, {needs}"


def accepted(phase7: ModuleType, calls: Sequence[tuple[Ints, Ints]]) -> Steps:
    """Accept drafts; each call is (drafts, sampled tokens)."""
    for place, (drafts, sampled) in enumerate(calls):
        given = (list if place % 2 else tuple)(new_objects(drafts)), new_objects(sampled)
        yield f"accept_drafts({given[0]}, {given[1]})"
        answer = phase7.accept_drafts(*given)
        is_same = ([*given[0]], given[1]) == ([*drafts], [*sampled])
        own = "the list of sampled tokens" if answer is given[1] else "a list"
        yield {
            "accept_drafts": numbers(answer),
            "returned": own,
            "arguments": "as before" if is_same else f"now {given}",
        }


def leaves(phase7: ModuleType, num_requests: int) -> Seen:
    """Start and end requests with drafts; report what they leave behind."""
    scheduling = phase7.SpeculativeScheduling(4, True)

    def use(name: str) -> Request:
        request = make_request(name, 3, num_output_tokens=1, num_computed_tokens=6)
        request.spec_token_ids = [5, 6]
        scheduling.num_lookahead_tokens(request)
        scheduling.usable_hit_blocks([len(name), 3])
        scheduling.roll_back(request, len(scheduling.schedule_drafts(request)), 1)
        phase7.accept_drafts([5, 6], [5, len(name), 7])
        phase7.select_logits_rows([ScheduledRequest(request, 3, 3, [1], needs_token=True, draft_token_ids=[5, 6])])
        return request

    return left_behind(phase7, use, scheduling, num_requests=num_requests)


def texts_leave(phase7: ModuleType, num_texts: int) -> Seen:
    """Look up many texts; report what they leave behind."""

    def use(name: str) -> None:
        newest = int(name.split()[-1]) + 1000 * name.startswith("then")
        phase7.propose_by_lookup([newest, 3, newest], 2, 1, 3)

    return left_behind(phase7, use, num_requests=num_texts)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    past = rng.randrange(1, 10**6)
    if task == 2:
        calls = [_random_call(rng, rng.choice("AAB")) for _ in range(12)]
        if rng.random() < 0.6:
            calls = [f"{name} {told}" for _ in range(6) for name in "AB" for told in _random_step(rng)]
        return rng.randint(1, 6), rng.random() < 0.3, rng.random() < 0.5, calls, past
    if task == 3:
        return rng.randint(1, 6), rng.random() < 0.5, False, [_random_question(rng) for _ in range(10)], past
    if task == 4:
        return [[_random_share(rng, place) for place in range(rng.choice((1, 2, 4, 6, 40)))]], past
    return ([_random_lookup(rng) for _ in range(4)] if task == 1 else [_random_pair(rng) for _ in range(6)],)


def _random_lookup(rng: Random) -> tuple[list[int], int, int, int]:
    """Draw a text with few distinct tokens, so that runs repeat. Some ids contain the digits of others."""
    kinds = [*rng.choice((range(9), SMALL, SMALL, LARGE, ALIKE))][: rng.choice((1, 2, 2, 3, 3, 4, 9))]
    tokens = rng.choices(kinds, k=rng.choice((rng.randint(1, 24), rng.randint(1, 24), 60)))
    shortest = rng.choice((1, 2, 3, 3, 6))
    return tokens, rng.choice((rng.randint(1, 6), 24)), shortest, shortest + rng.choice((0, 1, 2, 3, 9))


def _random_call(rng: Random, name: str) -> str:
    """Draw a call about a request with a planned or computed step that has all, some or no drafts."""
    num_drafts, placeholders = rng.choice((rng.randint(0, 6), 19)), rng.choice((0, 0, 0, rng.randint(1, 5)))
    known = KNOWN + placeholders
    if rng.random() < 0.5:
        drafts = [rng.choice((-1, 0, rng.randint(1, 99), 151_643)) for _ in range(num_drafts)]
        computed = rng.choice((known + num_drafts, known + rng.randint(0, num_drafts), rng.randint(1, known)))
        return f"{name} schedule {drafts} at {computed} with {placeholders}".replace(",", "")
    num_drafts += num_drafts == 0
    computed = rng.choice((0, KNOWN + num_drafts, KNOWN + num_drafts + rng.choice((0, 2))))
    placeholders = rng.choice((0, 1 + num_drafts, 2 * (1 + num_drafts)))
    return f"{name} roll back {num_drafts} {rng.randint(1, num_drafts + 1)} at {computed} with {placeholders}"


def _random_step(rng: Random) -> list[str]:
    num_given = rng.choice((*range(6), 16))
    return [f"plan {num_given} budget {rng.choice((1, 2, 3, 100))}", f"arrive {rng.randint(0, num_given)}"]


def _random_question(rng: Random) -> str:
    """Draw a call about the slots of a request with any status, or about a hit of any length."""
    if rng.random() < 0.5:
        return f"hits {rng.sample(range(1, 500), rng.choice((0, 1, 2, 5, 40)))}".replace(",", "")
    status = rng.choice(("WAITING", "RUNNING", "RUNNING", "PREEMPTED"))
    return f"{rng.choice('AAB')} slots {status} {rng.randrange(6)} {rng.randint(1, 13)}"


def _random_share(rng: Random, place: int) -> tuple[Any, ...]:
    drafts = [rng.choice((0, 7, 300, 151_643)) for _ in range(rng.choice((rng.randint(0, 5), 17)))]
    num_tokens = rng.randint(2, 12)
    kinds: list[tuple[Any, ...]] = [
        (rng.randint(0, 9), rng.randint(1, 9)),
        (num_tokens, rng.randint(1, num_tokens), ()),
        (num_tokens, 1, drafts),
        (num_tokens, rng.randint(1, num_tokens), drafts),
    ]
    return (f"r{place}", *rng.choice(kinds))


def _random_pair(rng: Random) -> tuple[list[int], list[int]]:
    """Draw drafts and sampled tokens, most of which match."""
    kinds = rng.choice(((0, 1, 2), (300, 151_643, 2**31 + 1), (2**31 + 1, 1, 0), (*ALIKE, 5 + 2**31)))
    size = rng.choice((rng.randint(0, 6), 20))
    drafts = [rng.choice((*kinds, -1)) if rng.random() < 0.1 else rng.choice(kinds) for _ in range(size)]
    right = rng.choice((0.7, 0.97))
    return drafts, [*(one if one >= 0 and rng.random() < right else rng.choice(kinds) for one in drafts), kinds[0]]
