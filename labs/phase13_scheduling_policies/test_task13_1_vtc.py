"""Graded tests for task 13.1: fair shares for tenants."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from labs.phase13_scheduling_policies.runs import (
    CONFIG,
    INPUT_WEIGHT,
    ONE_SEAT,
    OUTPUT_WEIGHT,
    STEP_SECONDS,
    Run,
    asked,
)
from labs.phase13_scheduling_policies.shared_rules import check_no_idle_step, check_same_tokens
from mini_vllm import EngineConfig
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.expect import expect_equal, lab_failure
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase13_plays
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

SHAPES = {"chat": (2, 8, 12, 30), "documents": (20, 40, 1, 3), "mixed": (5, 20, 5, 15)}


def flood(tenant: str, shape: str, count: int, seed: int, at: float = 0.0) -> list[TimedRequest]:
    """Return a tenant's requests, which all arrive at once, with lengths drawn from a shape's ranges."""
    rng, (least_in, most_in, least_out, most_out) = random.Random(f"{tenant} {seed}"), SHAPES[shape]
    return [
        asked(f"{tenant}{n}", rng.randint(least_in, most_in), rng.randint(least_out, most_out), at, tenant)
        for n in range(count)
    ]


def bound_of(requests: Sequence[TimedRequest], config: EngineConfig) -> float:
    """Return the bound 2U from the paper's theorem. U is the higher of two costs: the longest prompt, and a batch of
    the longest requests."""
    longest = max(request.num_prompt_tokens + request.num_output_tokens for request in requests)
    most_input = INPUT_WEIGHT * max(request.num_prompt_tokens for request in requests)
    return 2 * max(most_input, OUTPUT_WEIGHT * config.max_num_seqs * longest)


def check_bound(
    phase13: ModuleType,
    requests: Sequence[TimedRequest],
    what: str,
    weights: Mapping[str, float] | None = None,
    config: EngineConfig = CONFIG,
) -> None:
    run = Run(phase13.VirtualTokenCounter(INPUT_WEIGHT, OUTPUT_WEIGHT, weights), requests, config, weights)
    bound = bound_of(requests, config) / min((weights or {"": 1.0}).values())
    pair, worst = max(run.differences.items(), key=lambda entry: entry[1])
    if worst > bound:
        lab_failure(
            rule="While two tenants both wait, the services they get differ by at most 2 U (arXiv 2401.00588).",
            situation=[what, f"{len(requests)} requests; 2 U = {bound:.0f} weighted tokens"],
            expected=f"{pair[0]} and {pair[1]} differ by at most {bound:.0f}",
            yours=f"they differ by {worst:.0f}",
            hint="whose counter was the lowest in that time, and why: because of a charge, a weight, or a lift?",
        )
    check_no_idle_step(run, what)


def check_order(phase13: ModuleType, requests: Sequence[TimedRequest], expected: str, rule: str, tie: str = "") -> None:
    """Fail unless requests begin in the expected order; ties may be broken either way."""
    run = Run(phase13.VirtualTokenCounter(), requests, ONE_SEAT)
    told = [f"{r.request_id}: {r.num_prompt_tokens} prompt tokens, arrives at {r.arrival_time:.3f} s" for r in requests]
    order = " ".join(run.order)
    expect_equal(
        order,
        tie if order == tie else expected,
        rule=rule,
        situation=["one seat, one output token each, a step takes 0.01 s; a1 is a request of tenant a", *told],
        hint="what are the counters each time the seat is free, and which request comes first if counters are equal?",
    )


@pytest.mark.parametrize("name", cases(phase13_plays, 1))
def test_who_is_served_when(phase13: ModuleType, answers: Answers, name: str) -> None:
    check(phase13_plays, phase13, answers, 1, name)


def test_tenants_that_wait_are_served_within_the_bound(phase13: ModuleType) -> None:
    for seed in range(3):
        requests = [*flood("a", "chat", 60, seed), *flood("b", "documents", 60, seed), *flood("c", "mixed", 60, seed)]
        check_bound(phase13, requests, f"seed {seed}: a sends chats, b documents, c both, all at 0 s")


def test_a_tenant_with_weight_3_gets_three_times_the_service(phase13: ModuleType) -> None:
    requests = [*flood("a", "mixed", 80, 1), *flood("b", "mixed", 200, 1)]
    check_bound(phase13, requests, "a has weight 1, b has weight 3; services over weight", {"b": 3.0})


def test_a_tenant_that_comes_back_has_saved_nothing(phase13: ModuleType) -> None:
    requests = [*flood("b", "mixed", 1, 0), *flood("a", "mixed", 200, 0), *flood("b", "mixed", 60, 1, at=4.0)]
    check_bound(phase13, requests, "a waits from 0 s on; b has one request at 0 s, and many from 4 s on")


def test_a_tenant_that_always_runs_and_seldom_waits_saves_nothing(phase13: ModuleType) -> None:
    trickle = [asked(f"b{n}", 1, 20, 0.15 * n, "b") for n in range(40)]
    requests = [*trickle, *flood("a", "mixed", 300, 0), *flood("b", "mixed", 60, 1, at=6.0)]
    what = "4 seats; a waits from 0 s on; b has one request after the other, and many from 6 s on"
    check_bound(phase13, requests, what, config=replace(CONFIG, max_num_seqs=4))


def test_after_an_idle_queue_nothing_is_saved_either(phase13: ModuleType) -> None:
    requests = [
        *flood("a", "mixed", 100, 0),
        *flood("a", "mixed", 60, 1, at=20.0),
        *flood("b", "mixed", 60, 1, at=20.0),
    ]
    check_bound(phase13, requests, "a alone from 0 s on; nothing is left at 20 s, when a and b come at once")


def test_a_lifted_counter_is_the_least_of_those_that_wait(phase13: ModuleType) -> None:
    requests = [asked(name, 60 if name == "b1" else 4, 1, tenant=name[0]) for name in ("b1", "a1", "b2", "a2", "a3")]
    requests.append(asked("c1", 4, 1, 1.5 * STEP_SECONDS, "c"))
    rule = "A tenant that comes back gets the lowest counter of the waiting tenants: here a's 6 after a1, not b's 62."
    check_order(phase13, requests, "b1 a1 a2 c1 a3 b2", rule, tie="b1 a1 c1 a2 a3 b2")


def test_a_higher_counter_stays(phase13: ModuleType) -> None:
    requests = [asked(name, 60 if name == "c1" else 4, 1, tenant=name[0]) for name in ("c1", "a1", "a2", "a3", "a4")]
    requests.append(asked("c2", 4, 1, 1.5 * STEP_SECONDS, "c"))
    rule = "Lifting never lowers a counter: c comes back with 62 and waits until a has reached 62."
    check_order(phase13, requests, "c1 a1 a2 a3 a4 c2", rule)


def test_of_equal_counters_the_first_to_come_is_first(phase13: ModuleType) -> None:
    for seed in range(5):
        names = [f"{letter}{number}" for letter, number in zip("zyxwvutsrq", range(20, 10, -1), strict=True)]
        random.Random(seed).shuffle(names)
        requests = [asked(name, 4, 1, 0.0, name[0]) for name in names]
        check_order(phase13, requests, " ".join(names), "Of tenants with equal counters the first to come is first.")


def test_tenants_come_back_in_the_order_of_arrival(phase13: ModuleType) -> None:
    names = ("x", "y", "z")
    requests = [asked("x0", 60, 1, tenant="x"), asked("y0", 4, 1, tenant="y"), asked("w0", 1, 190, 0.5, "w")]
    requests += [asked(f"{t}{n}", 4, 1, 1.005 + 1e-6 * k, t) for k, t in enumerate(names) for n in range(1, 7)]
    run = Run(phase13.VirtualTokenCounter(tenant_weights={"w": 1000.0}), requests, ONE_SEAT)
    place = run.order.index("x1") - 2
    expect_equal(
        {"x1 is among the first three of them": place <= 3},
        {"x1 is among the first three of them": True},
        rule="Several tenants may come back in one step, in the order of arrival, which may differ by a microsecond. "
        "So x comes first and stays at 62, and y and z are lifted to 62.",
        situation=[
            "one seat; x has had 62, y 6 and z nothing when all three come back while w runs, whose weight is 1000",
            "x1 to x6 arrive at 1.005 s, y1 to y6 at 1.005001 s, z1 to z6 at 1.005002 s",
            f"the order: {' '.join(run.order)}",
        ],
        hint="to which counter does your code lift each of the three, in which order, and which of them wait then?",
    )


def test_the_last_to_leave_the_queue_is_the_measure_when_none_waits(phase13: ModuleType) -> None:
    requests = [asked("x0", 60, 130, tenant="x"), asked("y0", 4, 1, tenant="y")]
    requests += [asked(f"{t}{n}", 4, 1, 1.005 + 1e-6 * k, t) for k, t in enumerate("zyx") for n in range(1, 4)]
    order = Run(phase13.VirtualTokenCounter(), requests).order
    expect_equal(
        {"x1 comes after all of y and z": order.index("x1") == len(order) - 3},
        {"x1 comes after all of y and z": True},
        rule="If no tenant waits, the counter of the tenant whose request left the queue last counts: "
        "here y's 6. x has run since then and has over 200.",
        situation=[
            "2 seats; x0 (60 prompt and 130 output tokens) and y0 (4 and 1) come at 0 s; at 1.005 s, while x0 runs,",
            "come z1 to z3, y1 to y3 and x1 to x3 (4 and 1 each)",
            f"the order: {' '.join(order)}",
        ],
        hint="whose request left the queue last, which tenants wait then, and to what is each of the three lifted?",
    )


def test_a_light_tenant_never_waits_for_more_than_the_bound(phase13: ModuleType) -> None:
    light = [asked(f"b{n}", 4, 4, 0.005 + 0.3 * n, "b") for n in range(20)]
    requests = [*flood("a", "mixed", 300, 0), *light]
    run = Run(phase13.VirtualTokenCounter(), requests)
    waits = run.served.times_to_first_token
    longest = max(wait for request, wait in zip(run.requests, waits, strict=True) if request.tenant == "b")
    # Each seat finishes at most one request before it is the light tenant's turn.
    limit = STEP_SECONDS * 2 * (SHAPES["mixed"][3] + 3)
    if longest > limit:
        lab_failure(
            rule="No tenant starves: the tenant that was served least has its turn when a seat is free.",
            situation="tenant a sends 300 requests at 0 s; b sends a small one every 0.3 s",
            expected=f"b waits for {limit:.2f} s at most",
            yours=f"b waits for {longest:.2f} s",
            hint="which tenant has the lowest counter when a seat is free, and does your code use the counters of now?",
        )


def test_the_texts_are_those_of_first_come_first_served(phase13: ModuleType) -> None:
    check_same_tokens(phase13.VirtualTokenCounter)
