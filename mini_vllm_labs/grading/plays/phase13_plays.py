"""Runs phase 13's cases for the graded tests and the judge: the order in which a stand-in engine serves requests.

The engine has memory for all requests. Ranks are not compared, because they differ between correct implementations. The
order of two tenants is also not compared if one's counter was raised to the other's; a third tenant's view is compared
instead.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.electives.policy.policy_queue import PolicyQueue
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.plays.support import with_a_past

# Name (its first letter is the tenant), number of prompt tokens, number of output tokens, arrival time in seconds,
# limits. The limits may include "hit", the number of tokens in a prefix hit, and "again", the number of output tokens
# after which the request is preempted once.
Asked = tuple[str, int, int, float, dict[str, float]]
Seen = dict[str, object]  # plain JSON
STEP_SECONDS, TOKEN_SECONDS = 0.01, 0.001
BUDGET = 16  # number of tokens per seat, so that long prompts are chunked
# Tenant names for some letters: similar names, and the empty name.
TENANTS = {"m": "", "n": "default", "o": "None", "p": "A", "q": "a", "r": "0", "s": "é", "t": "a1"}
MAX_STEPS = 2000
PREFIX = f"a request{', really' * 20}, called "  # shared by all ids


class PlayedRun:
    """A run: the admission order, the victims at one step, and the first violation of the policy contract.

    A step produces `num_at_once` output tokens, as with drafts. `slack` is called at the step whose victims are
    recorded.
    """

    def __init__(
        self,
        policy: SchedulingPolicy,
        asked: Sequence[Asked],
        num_seats: int,
        step_of_victims: int = 0,
        num_at_once: int = 1,
        budget: int = BUDGET,
        slack: Callable[[Request], float] | None = None,
    ) -> None:
        self.order: list[str] = []
        self.victims: list[str] = []
        self.slacks: dict[str, str] = {}
        self.broken_rule = ""
        self.policy, self.num_seats, self.num_at_once, self.budget = policy, num_seats, num_at_once, budget
        self.queue, self.running, self.now = PolicyQueue(policy), list[Request](), 0.0
        self.hits = {name: int(limits.get("hit", 0)) for name, _, _, _, limits in asked}
        self.again = {name: int(limits["again"]) for name, _, _, _, limits in asked if "again" in limits}
        to_come = sorted(map(request_of, asked), key=lambda request: request.arrival_time)
        for number in range(MAX_STEPS):
            while to_come and to_come[0].arrival_time <= self.now:
                self.queue.add_request(to_come.pop(0))
            self.step(slack if number == step_of_victims else None)
            if number == step_of_victims:
                running = list(self.running)
                policy.victims(running)  # the next call must return a new list
                self.victims = list(map(name_of, policy.victims(running)))
                if running != self.running:
                    self.broken_rule = "`victims` changes the list that it is given"
            if self.broken_rule or not (to_come or self.running or len(self.queue)):
                return
            self.now += STEP_SECONDS
        self.broken_rule = "it never ends"

    def step(self, slack: Callable[[Request], float] | None) -> None:
        """Plan and compute a step."""
        policy, running, queue = self.policy, self.running, self.queue
        view = StepView(self.now, running, queue, 10_000, 4, self.num_seats, self.budget * self.num_seats)
        policy.start_step(view)
        if slack is not None:
            self.note(slack)
        if not policy.rank_is_fixed:
            queue.sort()
        if policy.to_preempt(view):
            self.broken_rule = "a request is preempted although there is memory"
        if set(policy.serve_order(list(running))) != set(running):
            self.broken_rule = "a running request is left out"
        has_preempted = self.preempt_those_due()
        while not has_preempted and len(queue) and len(running) < self.num_seats:
            if not policy.admits(queue.peek_request(), running):
                self.broken_rule = "a seat stays empty"
                break
            running.append(queue.pop_request())
            running[-1].num_computed_tokens = self.hits[name_of(running[-1])]
            self.order.append(name_of(running[-1]))
        shares = [(one, min(self.budget, one.num_tokens - one.num_computed_tokens)) for one in running]
        if any(policy.token_limit(*share) < 1 for share in shares):
            self.broken_rule = "a request sits out"
        policy.scheduled(shares)
        for request, num_tokens in shares:
            request.num_computed_tokens += num_tokens
            if request.num_computed_tokens == request.num_tokens:
                num_new = min(self.num_at_once, request.sampling_params.max_tokens - request.num_output_tokens)
                request.all_token_ids += [1] * num_new
                if request.num_output_tokens == request.sampling_params.max_tokens:
                    request.status = RequestStatus.FINISHED_LENGTH_CAPPED
                    running.remove(request)
                policy.sampled(request, num_new)

    def preempt_those_due(self) -> bool:
        """Preempt the running requests that are due; return whether there were any. If any were preempted, no request
        is admitted."""
        due = [one for one in self.running if self.again.get(name_of(one), one.num_tokens) <= one.num_output_tokens]
        for request in due:
            del self.again[name_of(request)]
            self.running.remove(request)
            request.preempt()
            self.queue.prepend_request(request)
        return bool(due)

    def note(self, slack: Callable[[Request], float]) -> None:
        """Record the slack of each request and, for running requests, also the slack after a preemption."""
        for request in sorted([*self.running, *self.queue], key=name_of):
            self.slacks[f"slack of {name_of(request)}"] = in_seconds(slack(request))
            if num_computed_tokens := request.num_computed_tokens:
                request.num_computed_tokens = 0
                self.slacks[f"slack of {name_of(request)}, if it is preempted"] = in_seconds(slack(request))
                request.num_computed_tokens = num_computed_tokens


def name_of(request: Request) -> str:
    return request.request_id.removeprefix(PREFIX)


def in_seconds(slack: float) -> str:
    return f"{round(slack, 6) + 0.0:.6f} s"  # adding 0.0 avoids -0


def request_of(asked: Asked) -> Request:
    name, num_prompt, num_output, at, others = asked
    limits = {limit: seconds for limit, seconds in others.items() if limit not in ("hit", "again")}
    params, level = SamplingParams(max_tokens=num_output), ServiceLevel("promised", **limits)
    tenant = TENANTS.get(name[0], name[0])
    request = with_a_past(Random(name), Request(PREFIX + name, [1] * num_prompt, params, priority=ord(name[-1]) % 3))
    request.arrival_time, request.tenant, request.service_level = at, tenant, level
    return request


def shares(
    phase13: ModuleType,
    asked: Sequence[Asked],
    weights: Mapping[str, float],
    num_seats: int,
    seen_from: str,
    prices: Sequence[float] = (1.0, 2.0),
    num_at_once: int = 1,
    budget: int = BUDGET,
) -> Seen:
    """Serve tenants by their counters; report the whole order, or the order before each request of one tenant."""
    of_tenants = {TENANTS.get(letter, letter): weight for letter, weight in weights.items()}
    policy = phase13.VirtualTokenCounter(*prices, of_tenants)
    phase13.VirtualTokenCounter(7.0, 5.0, {"a": 9.0})  # reveals state that is stored on the class
    run = PlayedRun(policy, asked, num_seats, num_at_once=num_at_once, budget=budget)
    if not seen_from:
        return {"order": run.order, "broken rule": run.broken_rule or "none"}
    seen: Seen = {}
    for place, name in enumerate(run.order):
        if name[0] == seen_from:
            counts = Counter(before[0] for before in run.order[:place])
            seen[f"requests before {name}, by tenant"] = dict(sorted(counts.items()))
    return seen | {"broken rule": run.broken_rule or "none"}


def slacks(
    phase13: ModuleType, asked: Sequence[Asked], num_seats: int, step_of_victims: int, num_at_once: int = 1
) -> Seen:
    """Serve requests by slack; report the order, plus the slacks and victims of a step that lacks memory."""
    policy = phase13.LeastSlackFirst(TOKEN_SECONDS, STEP_SECONDS)
    phase13.LeastSlackFirst(7.0, 5.0)  # reveals state that is stored on the class
    run = PlayedRun(policy, asked, num_seats, step_of_victims, num_at_once, slack=policy.slack)
    return {"order": run.order, "victims": run.victims, **run.slacks, "broken rule": run.broken_rule or "none"}


def forgets(phase13: ModuleType, num_requests: int) -> Seen:
    """Serve two tokens to each request, then end it; report what the requests leave behind."""
    from mini_vllm_labs.grading.plays.work import left_behind

    policy = phase13.LeastSlackFirst()

    def use(name: str) -> Request:
        request = request_of((name, 1, 2, 0.0, {"tpot": 1.0}))
        for status in (RequestStatus.RUNNING, RequestStatus.FINISHED_LENGTH_CAPPED):
            request.all_token_ids.append(1)
            request.status = status
            policy.sampled(request, 1)
            policy.start_step(StepView(0.01, [], PolicyQueue(policy), 99, 4, 2, 16))
        return request

    return left_behind(phase13, use, policy, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    return random_shares(rng) if task == 1 else random_slacks(rng)


def random_shares(rng: Random) -> tuple[Any, ...]:
    """Draw tenants that all arrive together, or of which some return after b has received the most service.

    In the second case, c was away, or arrives when a's last request has left the queue, or has always had a running
    request. Alternatively, no request has waited for a while, and a, c and d return in any order.
    """

    def flood(tenant: str, numbers: Sequence[int], at: float = 0.0, longest: int = 2) -> list[Asked]:
        return [(f"{tenant}{n}", rng.randint(4, 10), rng.randint(1, longest), at, {}) for n in numbers]

    much: Asked = ("b0", rng.randint(120, 160), 1, 0.0, {})
    # odd numbers, so that counters are never equal by coincidence
    back, odd = rng.uniform(0.15, 0.18), {"b": 0.9137, "c": 1.0631}
    many: Sequence[int] = range(1, 31)
    some: Asked = ("d0", rng.randint(60, 80), 1, 0.0, {})
    match rng.choice(("at once", "away", "leaves", "idle", "runs")):
        case "at once":
            tenants, long = rng.sample("mnopqrst", 4), rng.choice((1, 1, 500))  # prompts with thousands of tokens
            asked: list[Asked] = [
                (f"{t}{n}", long * rng.randint(1, 40), rng.randint(1, 3), 0.0, {}) for t in tenants for n in range(5)
            ]
            weights = {t: rng.choice((0.5, 1.0, 2.0, 4.0)) for t in tenants[1:]}
            if rng.random() < 0.5:
                scale = 2.0 ** rng.choice((-10, 14))  # a power of 2, so that sums of charges are exact
                weights = {t: scale * weights.get(t, 1.0) for t in tenants}
            prices = rng.choice(((1.0, 2.0), (2.0, 1.0), (0.25, 3.0), (1000.0, 1.0)))
            budget = BUDGET if long == 1 else 40 * long
            asked = [(*one[:4], {"hit": rng.randrange(one[1])}) if rng.random() < 0.3 else one for one in asked]
            # preempted by itself, which leads to a plan without shares
            asked = [
                (*one[:4], {**one[4], "again": rng.choice((1, one[2] - 1))})
                if one[2] > 1 and rng.random() < 0.2
                else one
                for one in asked
            ]
            return rng.sample(asked, len(asked)), weights, 1, "", prices, rng.choice((1, 1, 3)), budget
        case "away":
            few = flood("b", range(1, 4), rng.choice((0.0, back)))
            return [much, *flood("a", many), *few, *flood("c", many, back)], odd, 1, "b"
        case "leaves":
            number = rng.randint(1, 5)
            num_steps = cdiv(much[1], BUDGET) + cdiv(some[1], BUDGET) + number
            last = [*flood("c", many, (num_steps - 0.5) * STEP_SECONDS, 1), *flood("b", range(1, 4))]
            return [much, some, *flood("a", range(1, number + 1), longest=1), *flood("d", many), *last], odd, 1, "b"
        case "idle":
            gap, numbers = rng.choice((1e-6, 1e-3)), {"a": range(50, 80), "b": range(1, 4)}
            again = [
                one
                for place, tenant in enumerate((*rng.sample("acd", 3), "b"), start=1)
                for one in flood(tenant, numbers.get(tenant, many), 1 + place * gap)
            ]
            runs: list[Asked] = [("e0", 1, 300, 0.0, {})] * rng.randint(0, 1)
            return [*runs, much, some, *flood("a", range(1, 6)), *again], odd, 1 + len(runs), "b"
    others = [*flood("a", many, longest=1), *flood("b", range(1, 4)), *flood("c", many, back, 1)]
    return [("c0", 1, 300, 0.0, {}), much, *others], odd, 2, "b"


def random_slacks(rng: Random) -> tuple[Any, ...]:
    """Draw requests that wait for one request slot, some with identical twins, or that run together until blocks run
    out."""
    num_seats = rng.choice((1, 12))
    asked: list[Asked] = []
    for name in rng.sample("abcdefghijklmnopqrstuvwxyz", 12):
        if asked and rng.random() < 0.2:
            asked.append((name, *asked[-1][1:]))
            continue
        limits = {"ttft": rng.uniform(0.05, 2), "tpot": rng.uniform(0.005, 0.2), "e2e": rng.uniform(0.1, 2.5)}
        chosen = {limit: limits[limit] for limit in rng.sample(sorted(limits), rng.choice((0, 1, 1, 1, 2)))}
        at = rng.uniform(0, 0.3) if num_seats == 1 and rng.random() < 0.5 else 0.0
        asked.append((name, rng.randint(1, 80), rng.randint(1, 20), at, chosen))
    return asked, num_seats, rng.randint(1, 20), rng.choice((1, 1, 3))
