"""The purpose of each policy, tested exactly on small runs."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from labs.phase13_scheduling_policies.runs import Run
from labs.phase13_scheduling_policies.runs import asked as timed
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.electives.policy.policy_queue import PolicyQueue
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.around import Around, DecodeFirst, PrefillFirst, StaticBatching
from mini_vllm_labs.policies.elastic_budget import BudgetController, ElasticBudget
from mini_vllm_labs.policies.feedback_queues import FeedbackQueues
from mini_vllm_labs.policies.joint_order import JointOrder, outranked
from mini_vllm_labs.policies.predictors import noisy, oracle
from mini_vllm_labs.policies.priority import Ageing, Priority
from mini_vllm_labs.policies.quality_of_experience import QualityOfExperience, TokenSeconds
from mini_vllm_labs.policies.shortest_first import ShortestFirst
from mini_vllm_labs.policies.two_classes import TwoClasses
from mini_vllm_labs.policies.victims import CheapestVictim, LeastComputedFirst
from solutions.phase13_scheduling_policies import LeastSlackFirst, VirtualTokenCounter
from tests.policies.driven import Driven, asked, mixed, tight

URGENT = ServiceLevel("urgent")


def begun(policy: SchedulingPolicy, requests: Sequence[Request], **settings: Any) -> str:
    """Return the requests in the order of their first tokens, by default with one request running at a time."""
    settings = {"max_num_seqs": 1} | settings
    return " ".join(Driven(policy, requests, **settings).first_token_times)


def running(*computed: int) -> list[Request]:
    """Return running requests of 40 prompt tokens with these numbers of computed tokens."""
    found = [asked(f"r{number}", 40, 40) for number in range(len(computed))]
    for request, num_computed in zip(found, computed, strict=True):
        request.admit(0)
        request.advance(num_computed)
    return found


def test_the_shortest_output_comes_first_and_what_was_generated_counts() -> None:
    lengths = {"a": 9, "b": 3, "c": 6}
    assert begun(ShortestFirst(oracle(lengths)), [asked(name, 4, n) for name, n in lengths.items()]) == "b c a"
    half_done = asked("a", 4, 9)
    half_done.all_token_ids += [7] * 5
    assert ShortestFirst(oracle(lengths)).rank(half_done) == 4


@pytest.mark.parametrize(("margin", "first"), [(None, "long"), (2.0, "short"), (6.0, "long")])
def test_shortest_remaining_time_takes_a_seat_if_it_is_much_shorter(margin: float | None, first: str) -> None:
    policy = ShortestFirst(oracle({"long": 20, "short": 3}), preempts=margin is not None, margin=margin or 1.0)
    driven = Driven(policy, [asked("long", 4, 20), asked("short", 4, 3, at=0.05)], max_num_seqs=1)
    assert next(iter(driven.finished_times)) == first
    assert driven.preempted == ["long"] * (first == "short")


def test_the_longest_is_preempted() -> None:
    requests = [asked("long", 8, 40), asked("short", 8, 24)]
    policy = ShortestFirst(oracle({"long": 40, "short": 24}))
    assert Driven(policy, requests, num_gpu_blocks=16).preempted == ["long"]


def test_noise_is_a_factor_per_request_and_seed() -> None:
    requests, lengths = [asked(f"r{n}") for n in range(2000)], {f"r{n}": 100 for n in range(2000)}
    logs = [math.log(noisy(lengths, 0.5)(request) / 100) for request in requests]
    assert sum(logs) / 2000 == pytest.approx(0, abs=0.05)
    assert math.hypot(*logs) / math.sqrt(2000) == pytest.approx(0.5, abs=0.03)
    assert logs[5] == math.log(noisy(lengths, 0.5)(requests[5]) / 100)
    assert noisy(lengths, 0.5, seed=1)(requests[0]) != noisy(lengths, 0.5)(requests[0])


def test_feedback_queues_demote_what_generates_and_skip_levels_for_long_prompts() -> None:
    policy, levels, request = FeedbackQueues(quantum=4, prefill_rate=8), list[int](), asked("a", 4, 30)
    assert [policy.level(asked(f"p{n}", n)) for n in (31, 32, 95, 96, 380)] == [0, 1, 1, 2, 3]
    Driven(policy, [request], before_step=lambda driven: levels.append(policy.level(request)))
    assert [levels.count(level) for level in range(3)] == [4, 8, 16]
    policy = FeedbackQueues(quantum=4)
    driven = Driven(policy, [asked("long", 4, 20), asked("short", 4, 3, at=0.075)], max_num_seqs=1)
    assert next(iter(driven.finished_times)) == "short"


@pytest.mark.parametrize(("starvation_seconds", "is_last"), [(0.2, False), (100.0, True)])
def test_a_starving_request_is_promoted(starvation_seconds: float, is_last: bool) -> None:
    policy = FeedbackQueues(quantum=4, starvation_seconds=starvation_seconds)
    requests = [asked("a", 400 - 9, 9), *(asked(f"b{n}", 4, 4, 0.03 * n) for n in range(30))]
    assert begun(policy, requests, max_num_batched_tokens=512).endswith("a") is is_last


def test_the_least_slack_is_served_first() -> None:
    limits = {"none": {}, "loose": {"ttft": 0.9}, "tight": {"ttft": 0.2}, "end": {"e2e": 0.5}, "long": {"e2e": 0.5}}
    requests = [
        asked(name, 4, 40 if name == "long" else 4, service_level=ServiceLevel(name, **limit))
        for name, limit in limits.items()
    ]
    assert begun(LeastSlackFirst(), [*requests, asked("more")]) == "long tight end loose none more"


@pytest.mark.parametrize("order", [("slow", "fast"), ("fast", "slow")])
def test_the_slower_pace_is_preempted(order: tuple[str, str]) -> None:
    paces = {"fast": ServiceLevel("fast", ttft=0.1, tpot=0.02), "slow": ServiceLevel("slow", ttft=0.1, tpot=0.5)}
    requests = [asked(name, 8, 40, service_level=paces[name]) for name in order]
    assert set(Driven(LeastSlackFirst(), requests, num_gpu_blocks=16).preempted) == {"slow"}


def test_normal_requests_never_use_the_reserved_budget() -> None:
    normal = [asked(f"n{n}", 150, 9) for n in range(6)]
    urgent = [asked(f"u{n}", 12, 4, 0.025 * n, service_level=URGENT) for n in range(8)]
    requests = sorted([*normal, *urgent], key=lambda request: request.arrival_time)
    driven = Driven(TwoClasses(reserved_share=0.25), requests, max_num_seqs=16)
    used = [sum(n for name, n in plan.items() if name[0] == "n") for plan in driven.plans]
    assert 40 < max(used) <= 48
    for request in urgent:
        assert driven.first_token_times[request.request_id] - request.arrival_time < 0.02


def test_few_requests_are_admitted_beside_an_urgent_one() -> None:
    requests = [asked("u", 4, 9, service_level=URGENT), *(asked(f"n{n}", 4, 30) for n in range(6))]
    driven = Driven(TwoClasses(urgent_batch_limit=2), requests, max_num_seqs=8)
    assert {len(plan) for plan in driven.plans if "u" in plan} == {2}
    assert max(map(len, driven.plans)) == 6


@pytest.mark.parametrize("policy", [TwoClasses(preempts=True), JointOrder(Priority())])
def test_an_urgent_request_takes_a_seat_of_a_normal_one(policy: SchedulingPolicy) -> None:
    normal = [asked(f"n{n}", 4, 30, priority=1, service_level=ServiceLevel()) for n in range(3)]
    urgent = asked("u", 4, 5, 0.05, service_level=URGENT)
    driven = Driven(policy, [*normal, urgent, asked("n3", 4, 5, 0.05, priority=1)], max_num_seqs=2)
    assert driven.first_token_times["u"] < 0.065
    assert driven.preempted == ["n1"]


def test_two_requests_that_outrank_each_other_do_not_take_turns_for_ever() -> None:
    class WaitingFirst(SchedulingPolicy):
        rank_is_fixed = False

        def rank(self, request: Request) -> bool:
            return request.status is RequestStatus.RUNNING

    driven = Driven(
        JointOrder(WaitingFirst()), [asked("a", 20, 3), asked("b", 20, 3)], max_num_seqs=1, max_num_batched_tokens=8
    )
    assert driven.preempted == ["a", "a"]  # preempted after each token except the last, but not before the first


def test_what_cannot_be_admitted_yet_takes_no_seat() -> None:
    first, held = asked("first"), running(4)
    queue = PolicyQueue(SchedulingPolicy())
    queue.add_request(first)
    step = StepView(0.0, held, queue, 9, 4, 1, 64)
    ranks = {"first": 0, "r0": 1}
    assert outranked(step, lambda request: ranks[request.request_id]) == held
    assert outranked(replace(step, max_num_seqs=2), lambda request: ranks[request.request_id]) == []  # a seat is free
    first.status = RequestStatus.WAITING_FOR_FSM
    assert outranked(step, lambda request: ranks[request.request_id]) == []


@pytest.mark.parametrize("seed", range(6))
def test_tenants_that_wait_are_served_within_the_bound_of_the_paper(seed: int) -> None:
    longest_input, longest_output, num_seqs = 20, 15, 2
    requests = [
        timed(f"{tenant}{n}", 1 + (7 * n + seed) % most_in, 1 + (5 * n + seed) % most_out, 0.0, tenant)
        for tenant, most_in, most_out in (("a", 5, longest_output), ("b", longest_input, 3), ("c", 9, 9))
        for n in range(50)
    ]
    bound = 2 * max(1.0 * longest_input, 2.0 * num_seqs * (longest_input + longest_output))
    assert max(Run(VirtualTokenCounter(), requests).differences.values()) <= bound
    assert max(Run(SchedulingPolicy(), requests).differences.values()) > bound


def test_counters_of_tenants() -> None:
    def tenants(names: str, at: float = 0.0) -> list[Request]:
        return [asked(f"{name}{n}{at}", 10, 1, at, tenant=name) for n, name in enumerate(names)]

    policy = VirtualTokenCounter(tenant_weights={"b": 2.0})
    Driven(policy, tenants("ab"))
    assert (policy.counters["a"], policy.counters["b"]) == (12.0, 6.0)
    order = begun(VirtualTokenCounter(), [*tenants("aaaaaaaa"), *tenants("bbb", at=0.045)])
    assert order.count("b") == 3
    # a tenant that was waiting has not accumulated any credit, so it is lifted to a's counter
    assert "bbb" not in "".join(name[0] for name in order.split())


@pytest.mark.parametrize(("policy", "gains"), [(QualityOfExperience(), True), (SchedulingPolicy(), False)])
def test_memory_goes_to_the_reader_who_gains_most(policy: SchedulingPolicy, gains: bool) -> None:
    slow, fast = ServiceLevel("slow", tpot=0.5), ServiceLevel("fast", ttft=0.05, tpot=0.02)
    requests = [asked("first", 4, 40, service_level=slow), asked("ahead", 40, 40, service_level=slow)]
    driven = Driven(policy, [*requests, asked("late", 40, 20, 0.1, service_level=fast)], num_gpu_blocks=27)
    assert (driven.preempted == ["ahead"]) is gains
    assert (driven.first_token_times["late"] < 0.15) is gains


def test_quality_is_the_area_that_was_read_of_the_expected_one() -> None:
    policy, (request, other) = (
        QualityOfExperience(ttft=1.0, tpot=0.5, horizon=2.0, seconds_per_token=0.5),
        running(8, 8),
    )
    request.all_token_ids += [7, 7]
    for now in (0.0, 2.0, 4.0):
        policy.start_step(StepView(now, [request, other], PolicyQueue(policy), 9, 4, 4, 64))
    # Due in the middle of each 2 s interval: 1 token at 1 s, 5 at 3 s, 9 at 5 s. Received: 2 tokens and 0 tokens.
    assert policy.readings["r0"] == TokenSeconds(2 * (1 + 2), 2 * (1 + 5))
    assert policy.gain(request) == pytest.approx(2.0 * 2 / (12 + 18) / 11)
    assert policy.gain(other) == pytest.approx(2.0 * 2 / (12 + 18) / 10)
    held = [running(8)[0], request, other]
    assert policy.victims(held) == [request, other, held[0]]  # the longest-running request comes last


def test_a_running_request_makes_way_for_gain_once() -> None:
    first, held, queue = asked("first", 40, 40), running(8, 8), PolicyQueue(SchedulingPolicy())
    queue.add_request(first)
    held[1].all_token_ids += [7] * 40  # this request has long had all the tokens that are due
    policy = QualityOfExperience(ttft=0.1, tpot=0.5, horizon=2.0)
    policy.start_step(step := StepView(1.0, held, queue, 8, 4, 4, 64))
    assert policy.to_preempt(step) == held[1:]
    held[1].num_preemptions = 1
    assert policy.to_preempt(step) == ()


def test_decodes_or_prompts_first() -> None:
    def decodes_beside_the_prompt(policy: SchedulingPolicy) -> list[bool]:
        requests = [asked("decodes", 4, 30), asked("prompt", 40, 2, 0.045, service_level=URGENT)]
        plans = Driven(policy, requests, max_num_batched_tokens=8).plans
        return ["decodes" in plan for plan in plans if plan.get("prompt", 0) > 1]

    urgent_first = TwoClasses(reserved_share=0)
    # once the urgent request is admitted, it uses the whole budget
    assert not any(decodes_beside_the_prompt(urgent_first)[1:])
    assert all(decodes_beside_the_prompt(DecodeFirst(urgent_first)))
    assert not any(decodes_beside_the_prompt(PrefillFirst()))
    assert all(decodes_beside_the_prompt(SchedulingPolicy()))
    policy, (held,), queue = PrefillFirst(), running(8), PolicyQueue(SchedulingPolicy())
    policy.start_step(StepView(0.0, [held], queue, 12, 4, 4, 64))
    assert [policy.admits(asked("new", num), [held]) for num in (40, 8, 1, 49)] == [True, True, False, False]


@pytest.mark.parametrize(("policy", "num_before"), [(Ageing(0.1), 40), (Priority(), 100)])
def test_ageing_starves_no_request_while_priority_does(policy: SchedulingPolicy, num_before: int) -> None:
    stream = [asked(f"s{n:02}", 4, 1, 0.005 * n) for n in range(100)]  # twice as many requests as one seat can serve
    assert begun(policy, [asked("old", 4, 1, priority=2), *stream]).split().index("old") == num_before


def test_victims() -> None:
    names = [r.request_id for r in LeastComputedFirst().victims(running(20, 5, 12, 5))]
    assert names == ["r3", "r1", "r2", "r0"]
    policy, held = CheapestVictim(), running(1, 16, 17, 8)
    policy.start_step(StepView(0.0, held, PolicyQueue(policy), 0, 8, 4, 64))
    assert [policy.cost(request) for request in held] == [1, 8, 17 / 3, 8]
    held[1].num_cached_tokens = 4
    held[3].all_token_ids += [7] * 20
    assert [policy.cost(request) for request in held] == [1, 6, 17 / 3, 16]
    assert [request.request_id for request in policy.victims(held)] == ["r2", "r1", "r3", "r0"]


def test_the_worst_priority_is_preempted() -> None:
    held = running(4, 4, 4, 4)
    for request, priority in zip(held, (1, 2, 0, 2), strict=True):
        request.priority, request.arrival_time = priority, 0.1 * priority
    assert [request.request_id for request in Ageing().victims(held)] == ["r3", "r1", "r0", "r2"]


def test_around_a_policy_everything_is_passed_on() -> None:
    held, told = running(4), []

    class Inner(VirtualTokenCounter):
        uses_priority = True

        def start_step(self, step: StepView) -> None:
            told.append("start_step")

        def sampled(self, request: Request, num_tokens: int) -> None:
            told.append("sampled")

        def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
            told.append("scheduled")

        def token_limit(self, request: Request, token_budget: int) -> int:
            return 3

        def admits(self, request: Request, running: Sequence[Request]) -> bool:
            return False

        def to_preempt(self, step: StepView) -> Sequence[Request]:
            return held

        def serve_order(self, running: list[Request]) -> list[Request]:
            return held

        def victims(self, running: list[Request]) -> list[Request]:
            return []

    policy, step = Around(Inner()), StepView(0.0, held, PolicyQueue(SchedulingPolicy()), 9, 4, 4, 64)
    policy.start_step(step)
    policy.scheduled([(held[0], 1)])
    policy.sampled(held[0], 1)
    assert told == ["start_step", "scheduled", "sampled"]
    assert (policy.token_limit(held[0], 9), policy.admits(held[0], held), policy.victims(held)) == (3, False, [])
    assert policy.to_preempt(step) is policy.serve_order([]) is held
    assert (policy.rank_is_fixed, policy.uses_priority) == (False, True)


def test_static_batches_never_admit_into_a_running_one() -> None:
    driven = Driven(StaticBatching(), [asked(f"r{n}", 4, 2 + 3 * n, 0.02 * n) for n in range(9)], max_num_seqs=3)
    assert all(not names or plan.keys() <= set(names) for names, plan in zip(driven.running, driven.plans, strict=True))
    assert {len(plan) for plan in driven.plans} == {1, 2, 3}


def test_the_budget_follows_first_tokens_and_throughput() -> None:
    policy, seen = BudgetController(target_ttft=0.05, min_num_batched_tokens=30), list[float]()

    def look(driven: Driven) -> None:
        seen.append(policy.budget)
        policy.target_ttft = 0.05 if driven.now < 4.95 else 100.0

    driven = Driven(policy, [asked(f"r{n}", 200, 2) for n in range(25)], seconds=0.1, before_step=look)
    budgets = list(dict.fromkeys(seen))
    assert budgets[1:5] == pytest.approx([64, 64 * 0.8, 64 * 0.8**2, 64 * 0.8**3])
    assert budgets[5] == 30
    assert max(budgets[6:]) > 30
    assert all(now == pytest.approx(before * 1.2) for before, now in pairwise(budgets[5:]))
    totals = [sum(plan.values()) for plan in driven.plans]
    assert all(total <= budget for total, budget in zip(totals[1:], seen[2:], strict=False))
    assert totals[15] == 51
    policy, seen = BudgetController(target_ttft=100.0), []
    Driven(
        policy,
        [asked(f"r{n}", 9, n + 1) for n in range(20)],
        seconds=0.1,
        before_step=lambda _: seen.append(policy.budget),
    )
    assert set(seen[1:]) == {64}  # fewer and fewer tokens arrive, but no other request is left


def test_the_elastic_budget_is_small_while_requests_wait() -> None:
    driven = Driven(ElasticBudget(), [asked("r0", 100, 2), asked("r1", 100, 2)], max_num_seqs=1)
    assert [sum(plan.values()) for plan in driven.plans] == [16, 16, 16, 16, 16, 16, 4, 1, 16, 64, 20, 1]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Ageing(0), "seconds_per_level must be greater than 0, got 0"),
        (lambda: FeedbackQueues(quantum=0), "quantum must be greater than 0, got 0"),
        (lambda: ShortestFirst(oracle({}), margin=0.5), "margin must be at least 1, got 0.5"),
        (lambda: QualityOfExperience(horizon=math.nan), "horizon must be greater than 0, got nan"),
        (lambda: BudgetController(period=0), "period must be greater than 0"),
        (lambda: ElasticBudget(share=1.1), "share must be at most 1, got 1.1"),
        (lambda: TwoClasses(reserved_share=1), "reserved_share must be at least 0 and less than 1, got 1"),
        (lambda: TwoClasses(urgent_batch_limit=0), "urgent_batch_limit must be at least 1, got 0"),
        (lambda: noisy({}, -1), "sigma must be at least 0, got -1"),
    ],
)
def test_a_bad_parameter_is_refused_in_words(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(
    ("policy", "seed"), [(FeedbackQueues(), 139), (LeastSlackFirst(), 275), (LeastSlackFirst(), 332)]
)
def test_requests_that_arrive_at_once_come_to_an_end(policy: SchedulingPolicy, seed: int) -> None:
    rng = random.Random(seed)
    requests = mixed(rng, 16, rng.choice((0.0, 0.5, 5.0)))
    Driven(policy, requests, tight(rng), 0.01)


def test_a_pace_alone_is_a_promise() -> None:
    request = asked("a", 4, 40, service_level=ServiceLevel("pace", tpot=0.1))
    request.all_token_ids.append(7)
    assert math.isfinite(LeastSlackFirst().slack(request))


@pytest.mark.parametrize(
    "policy",
    [
        ShortestFirst(lambda request: 9.0, preempts=True, margin=1.0),
        TwoClasses(preempts=True),
        FeedbackQueues(quantum=1),
    ],
)
def test_no_seat_is_given_up_for_a_grammar_that_is_not_there(policy: SchedulingPolicy) -> None:
    waits, held, queue = asked("a", service_level=URGENT), running(8), PolicyQueue(policy)
    waits.status = RequestStatus.WAITING_FOR_FSM
    held[0].all_token_ids += [7] * (0 if isinstance(policy, ShortestFirst) else 5)
    queue.add_request(waits)
    assert not policy.to_preempt(StepView(0.0, held, queue, 9, 4, 1, 64))


def test_few_run_beside_an_urgent_request_that_comes_later() -> None:
    requests = [*(asked(f"n{n}", 4, 30) for n in range(6)), asked("u", 4, 9, 0.05, service_level=URGENT)]
    driven = Driven(TwoClasses(urgent_batch_limit=2), requests, max_num_seqs=8)
    assert max(len(plan) for plan in driven.plans if "u" in plan) <= 2
