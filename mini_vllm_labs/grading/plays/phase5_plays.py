"""Runs phase 5's cases for the graded tests and the judge, call by call, one function per kind of case."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import permutations
from numbers import Integral
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.interfaces import ChunkPolicy, Clamp
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm_labs.grading.plays.moments import Living, told, with_odd_fields
from mini_vllm_labs.grading.plays.stand_ins import FrozenKV
from mini_vllm_labs.grading.plays.support import changed, fields_of, make_request, numbers, yes_or_no
from mini_vllm_labs.grading.plays.work import left_behind

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, then the observations after it
Settings = Mapping[str, int]  # of the policy: threshold, max_model_len, chunking, guard
Choices = Mapping[tuple[bool, ...], int]  # maps the outcomes of comparing `clamp`'s numbers to the index of its result
STATUSES = "WAITING", "RUNNING", "PREEMPTED"
TOKENS = r"(\d+)(?:\+(\d+))?"  # numbers of prompt tokens and generated tokens
ASKED = re.compile(rf"(\S+) ({'|'.join(STATUSES)}) {TOKENS} at (\d+) (budget|counter|chunks of) (\d+)(?: past (\d+))?")
WAITS = re.compile(rf"(\S+) (WAITING|PREEMPTED) {TOKENS}(?: hits ([\d -]+?))?(?: beside (.+?))?(?: past (\d+))?")
RUNS = re.compile(rf"(?:(\d+) times )?(\S+) {TOKENS} at (\d+) on ([\d -]+)")
MAX_CHUNKS = 12
NUM_RANDOM = 100


def public_clamp() -> Clamp:
    # imported here, because the judge's jail must not contain an answer to task 1.1
    from mini_vllm_labs.grading.labtest.public_clamp import make_clamp

    return make_clamp()


def order_of(given: Sequence[int]) -> tuple[bool, ...]:
    return tuple(bool(one < other) for one, other in permutations(given, 2))


def choosing(choices: Choices) -> Clamp:
    """Return a `clamp` that only looks up which value to return: 0 or one of its arguments."""

    def clamp(num_new: int, budget: int, threshold: int) -> int:
        given = (0, num_new, budget, threshold)
        return given[choices[order_of(given)]]

    return clamp


def policy_of(phase5: ModuleType, settings: Settings, choices: Choices | None) -> ChunkPolicy:
    """Make a policy; before and after it, make another one with different settings. Default settings are not passed."""
    threshold, max_model_len = settings.get("threshold", 0), settings.get("max_model_len", 10**6)
    chunking, guard = bool(settings.get("chunking", True)), bool(settings.get("guard", False))
    switches = ({} if chunking else {"enable_chunked_prefill": False}) | ({"admission_guard": True} if guard else {})
    clamp = public_clamp() if choices is None else choosing(choices)
    others = {"enable_chunked_prefill": not chunking, "admission_guard": not guard}

    def make_other() -> None:  # reveals state that the class keeps from the first or the last policy
        phase5.ChunkedPrefillPolicy(grants_nothing, threshold + 7, max_model_len + 9, **others)

    make_other()
    policy: ChunkPolicy = phase5.ChunkedPrefillPolicy(clamp, threshold, max_model_len, **switches)
    make_other()
    return policy


def grants_nothing(num_new: int, budget: int, threshold: int) -> int:
    """Stand in for a different policy's `clamp`."""
    return 0


def made(settings: Settings) -> str:
    """Return the call that constructs a policy, as text."""
    named: dict[str, object] = {"threshold": "off", "max_model_len": 10**6, "chunking": 1, "guard": 0, **settings}
    switches = {name: "on" if named.pop(name) else "off" for name in ("chunking", "guard")}
    return f"ChunkedPrefillPolicy({', '.join(f'{name} {value}' for name, value in (named | switches).items())})"


def request_in(status: RequestStatus, name: str, num_prompt: int, num_outputs: int = 0, computed: int = 0) -> Request:
    """Make a request with a given status; `num_computed_tokens` is 0 unless it is RUNNING."""
    request = make_request(name, num_prompt, num_output_tokens=num_outputs)
    request.status = status
    request.num_computed_tokens = computed if status is RequestStatus.RUNNING else 0
    return request


def whole(answer: object) -> object:
    return int(answer) if isinstance(answer, Integral) else f"{answer!r}, a {type(answer).__name__}"


class Chunking:
    """A policy, and requests that persist between its calls."""

    def __init__(self, phase5: ModuleType, settings: Settings, choices: Choices | None) -> None:
        self.anew: Callable[[], ChunkPolicy] = lambda: policy_of(phase5, settings, choices)
        self.policy, self.living = self.anew(), Living(Random(0))

    def ask(self, call: str) -> Steps:
        match = ASKED.fullmatch(call)
        assert match, call
        name, status, num_prompt, num_outputs, at, kind, number, past = match.groups()
        computed = int(number if kind == "counter" else at)
        moment = request_in(RequestStatus[status], name, int(num_prompt), int(num_outputs or 0), computed)
        usual = copy(moment)
        odd = with_odd_fields(moment, past)
        request = self.living.now(moment)
        method, given = (
            ("should_sample", [int(at)]) if kind == "counter" else ("num_new_tokens", [int(at), int(number)])
        )
        about = f"{name}: {status}, {tokens_of(request)}, its own counter is {request.num_computed_tokens}{odd}"
        if kind == "chunks of":
            yield f"{name} is computed in chunks, budget {number}   {about}"
            yield self.chunks(request, int(number))
            return
        yield f"{method}({name}, {', '.join(map(str, given))})   {about}"
        before = fields_of(request)
        asked = [(self.policy, request), (self.anew(), copy(request)), (self.anew(), usual)]
        plain = whole if method == "num_new_tokens" else yes_or_no
        answers = [plain(getattr(policy, method)(one, *given)) for policy, one in asked]
        yield {method: told("policy", *answers), "arguments": changed(request, before)}

    def chunks(self, request: Request, budget: int) -> Seen:
        """Compute a request step by step, stopping after a few steps even if it is unfinished."""
        chunks, samples = list[object](), list[object]()
        while request.num_computed_tokens < request.num_tokens and len(chunks) < MAX_CHUNKS:
            num_new = self.policy.num_new_tokens(request, request.num_computed_tokens, budget)
            request.status = RequestStatus.RUNNING
            request.num_computed_tokens += num_new
            chunks.append(whole(num_new))
            samples.append(yes_or_no(self.policy.should_sample(request, request.num_computed_tokens)))
        return {"chunks": chunks, "samples": samples}


def asked(phase5: ModuleType, settings: Settings, calls: Sequence[str], choices: Choices | None = None) -> Steps:
    """Call a policy with requests that persist, and a new policy with copies, with and without odd fields.

    "A PREEMPTED 10+7 at 12 budget 100": the argument says that 12 of A's tokens (10 prompt and 7 generated) are
    computed. With "counter 3" (the request's counter) instead of the budget, `should_sample` is called. A call with
    "chunks of 16" runs all steps with a budget of 16. A final "past 7" is the seed for randomising the fields that no
    rule mentions.
    """
    yield made(settings)
    chunking = Chunking(phase5, settings, choices)
    for call in calls:
        yield from chunking.ask(call)


class Moment:
    """A waiting request at one moment: its hit blocks, the running requests, and their block tables."""

    def __init__(self, block_size: int, call: str, living: Living) -> None:
        match = WAITS.fullmatch(call)
        assert match, call
        name, status, num_prompt, num_outputs, hits, others, past = match.groups()
        moments = [request_in(RequestStatus[status], name, int(num_prompt), int(num_outputs or 0))]
        self.block_size, self.hits, self.tables = block_size, numbers(hits or ""), dict[str, list[int]]()
        for other in others.split(", ") if others else []:
            moments += self.running(other)
        self.usual = [*map(copy, moments)]
        odd = [with_odd_fields(one, past) for one in moments]
        self.requests = [living.now(one) for one in moments]
        self.amiss = set[str]()
        lines = [f"{name}: {status}, {tokens_of(moments[0])}, hit blocks {self.hits}{odd[0]}"]
        for one, strange in zip(self.requests[1:4], odd[1:], strict=False):
            lines.append(f"{one.request_id}: {tokens_of(one)}, holds {self.tables[one.request_id]}{strange}")
        more = f"; and {len(moments) - 4} more" if len(moments) > 4 else ""
        self.text = f"admits({name}), with fewer and with more free blocks of {block_size}   {'; '.join(lines)}{more}"

    def running(self, told: str) -> list[Request]:
        match = RUNS.fullmatch(told)
        assert match, told
        times, name, num_prompt, num_outputs, computed, table = match.groups()
        names = [f"{name}{number}" for number in range(int(times))] if times else [name]
        self.tables |= {one: [block_id + at for block_id in numbers(table)] for at, one in enumerate(names)}
        told_of = int(num_prompt), int(num_outputs or 0), int(computed)
        return [request_in(RequestStatus.RUNNING, one, *told_of) for one in names]

    def fewest(self, policy: ChunkPolicy, requests: Sequence[Request], kv: FrozenKV, *, is_alone: bool) -> object:
        """Return the smallest number of free blocks that admits the first request, either alone or alongside the
        others."""
        request, *running = requests[:1] if is_alone else requests
        tables = {} if is_alone else self.tables
        held = {block_id for table in tables.values() for block_id in table}
        idle = [block_id for block_id in dict.fromkeys(self.hits) if block_id not in held]
        low = len(idle)
        high = low + 9 + sum(one.num_tokens // self.block_size + 4 for one in requests)
        used = held.union(idle)
        others = [block_id for block_id in range(1, high - low + len(used) + 1) if block_id not in used]
        queue = [*idle, *others[: high - low]]
        while low < high:
            middle = (low + high) // 2
            # the engine uses the same object every time
            vars(kv).update(vars(FrozenKV(self.block_size, tables, queue[:middle])))
            hit_blocks, beside = [*self.hits], [*running]
            before = kv.contents()
            answer = yes_or_no(policy.admits(request, hit_blocks, beside, kv))
            now = kv.contents()
            self.amiss |= {name for name in before if now.get(name) != before[name]}
            self.amiss |= {"hit_blocks"} if hit_blocks != self.hits else set()
            self.amiss |= {"running"} if list(map(id, beside)) != list(map(id, running)) else set()
            if isinstance(answer, str):
                return answer
            low, high = (low, middle) if answer else (middle + 1, high)
        return low if low < len(queue) else f"more than {low}"


def tokens_of(request: Request) -> str:
    return f"{request.num_prompt_tokens} prompt and {request.num_output_tokens} generated tokens"


def admissions(
    phase5: ModuleType, settings: Settings, block_size: int, calls: Sequence[str], choices: Choices | None = None
) -> Steps:
    """Find how many free blocks are needed to admit a request: alone, then with the running requests.

    In "W WAITING 17 hits 4 1 beside A 8 at 7 on 1 2, B 11+5 at 4 on 3", W has 17 tokens. A has computed 7 of its 8
    tokens and holds blocks 1 and 2. With "600 times R 16 at 15 on 1", R0 to R599 hold one block each, from block 1 on.
    """
    yield made(settings)
    living, kv = Living(Random(0)), FrozenKV(1, {}, [])
    policy = policy_of(phase5, settings, choices)
    for call in calls:
        moment = Moment(block_size, call, living)
        yield moment.text
        before, seen = [fields_of(one) for one in moment.requests], Seen()
        for is_alone in (True, False)[: len(moment.requests)]:
            asked = [(policy, moment.requests, kv)]
            asked += [
                (policy_of(phase5, settings, choices), [*map(copy, requests)], FrozenKV(1, {}, []))
                for requests in (moment.requests, moment.usual)
            ]
            label = "free blocks needed" + ", if no other request runs" * is_alone
            seen[label] = told("policy", *(moment.fewest(*one, is_alone=is_alone) for one in asked))
        amiss = {changed(*pair) for pair in zip(moment.requests, before, strict=True)} - {"as before"}
        amiss |= {f"{name} changed" for name in moment.amiss}
        yield seen | {"arguments": ", ".join(sorted(amiss)) or "as before"}


def leaves(phase5: ModuleType, num_requests: int, choices: Choices | None = None) -> Seen:
    """Start and end requests, calling all three methods for each; report what they leave behind."""
    policy, kv = policy_of(phase5, {"guard": 1}, choices), FrozenKV(4, {"A": [1]}, [2, 3, 4, 5])

    def use(name: str) -> None:
        request, other = request_in(RequestStatus.WAITING, name, 9), request_in(RequestStatus.RUNNING, "A", 4, 0, 3)
        policy.admits(request, [1], [other], kv)
        policy.num_new_tokens(request, 4, 100)
        policy.should_sample(request, 9)

    return left_behind(phase5, use, policy, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task, sometimes with thousands of tokens."""
    threshold, switch = rng.choice((0, 0, rng.randint(1, 30))), rng.random() < 0.5
    if task == 4:
        settings = {"guard": 1, "threshold": threshold, "chunking": int(switch)}
        block_size, num_blocks = rng.choice((1, 2, 3, 4, 16, 32)), rng.choice((15, 15, 15, 90))
        return settings, block_size, [_random_moment(rng, block_size, num_blocks) for _ in range(rng.randint(1, 4))]
    most = rng.choice((60, 60, 3000))
    max_model_len, threshold = rng.randint(8, most), rng.choice((0, 0, rng.randint(1, most // 2)))
    chunking = task == 1 or (task == 3 and switch)
    settings = {"threshold": threshold, "max_model_len": max_model_len, "chunking": int(chunking)}
    return settings, [_random_call(rng, max_model_len, threshold, task) for _ in range(rng.randint(1, 8))]


def _random_call(rng: Random, max_model_len: int, threshold: int, task: int) -> str:
    """Draw a call about a request that may be near the caps or its last known token, or far away."""
    name, past = rng.choice("AAB"), rng.choice(("", f" past {rng.getrandbits(30) + 1}"))
    if task == 3:
        num_tokens = rng.choice((rng.randint(1, 9), rng.randint(1, max_model_len - 1), max_model_len - 1))
        num_outputs = min(rng.choice((0, 0, 1, 2, 5, 90)), num_tokens - 1)
        borders = (num_tokens, num_tokens, num_tokens - 1, num_tokens - num_outputs, rng.randint(1, num_tokens))
        told = f"{num_tokens - num_outputs}+{num_outputs} at {max(1, rng.choice(borders))}"
        return f"{name} RUNNING {told} counter {rng.randint(0, num_tokens)}{past}"
    status, num_tokens = rng.choice(STATUSES), rng.choice((max_model_len, rng.randint(1, max_model_len)))
    num_outputs = 0 if status == "WAITING" else rng.randrange(num_tokens)
    computed = rng.choice((num_tokens - 1, rng.randrange(num_tokens)))
    num_left = num_tokens - computed
    near = (num_left, num_left + 1, num_left - 1, threshold, threshold + 1, max(0, threshold - 1))
    budget = rng.choice((rng.randint(0, 40), rng.randint(1, max_model_len), rng.choice(near)))
    return f"{name} {status} {num_tokens - num_outputs}+{num_outputs} at {computed} budget {budget}{past}"


def _random_moment(rng: Random, block_size: int, num_blocks: int) -> str:
    """Draw a waiting request, its hit blocks, and up to eight running ones; some hold extra blocks for drafts."""
    unused = rng.sample(range(1, num_blocks + 1), num_blocks)
    tables, others = list[list[int]](), list[str]()
    names = rng.sample(("A", "B", "C", "D", "r1", "r10", "r11", "1"), rng.randint(0, 8 if num_blocks > 30 else 4))
    for name in names:
        num_tokens = rng.randint(1, 5 * block_size)
        num_needed = -(-num_tokens // block_size)
        num_held = min(rng.choice((rng.randint(1, num_needed), num_needed + rng.randint(0, 2))), len(unused))
        if num_held:
            other = rng.choice([[], *tables])
            shared = other[: rng.randint(0, min(len(other), num_held))]
            tables.append(shared + [unused.pop() for _ in range(num_held - len(shared))])
            computed = min(num_held * block_size, num_tokens) - (num_held * block_size >= num_tokens)
            num_outputs = rng.choice((0, rng.randrange(num_tokens)))
            held = " ".join(map(str, tables[-1]))
            others.append(f"{name} {num_tokens - num_outputs}+{num_outputs} at {computed} on {held}")
    num_prompt, num_outputs = rng.randint(1, num_blocks * block_size), rng.choice((0, rng.randint(1, block_size)))
    held_hits = rng.choice(tables or [[]])
    hits = [*held_hits[: rng.randint(0, len(held_hits))], *unused[: rng.choice((0, 1, 2, 9))]]
    hits = hits[: (num_prompt + num_outputs - 1) // block_size]
    told = f"W {'PREEMPTED' if num_outputs else 'WAITING'} {num_prompt}+{num_outputs}"
    told += f" hits {' '.join(map(str, hits))}" * bool(hits) + f" beside {', '.join(others)}" * bool(others)
    return told + rng.choice(("", f" past {rng.getrandbits(30) + 1}"))
