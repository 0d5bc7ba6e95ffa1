"""Graded tests of task 3.2."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase3.cases import NUM_STATES, RANKS, SEEDS, runner
from course.labtest.phase3.queue_harness import rank
from course.labtest.support import as_typed, some_ids, with_a_past
from mini_vllm.config import Policy
from mini_vllm.core.request import Request


def check_victim(phase3: ModuleType, running: list[Request], policy: Policy, victim: str, rule: str, hint: str) -> None:
    order = [r.request_id for r in running]
    situation = [f"RUNNING {', '.join(map(rank, running))}", f"policy  {policy}"]
    chosen = phase3.choose_victim(running, as_typed(policy))
    name = next(
        (r.request_id for r in running if r is chosen), f"not in RUNNING: {getattr(chosen, 'request_id', chosen)!r}"
    )
    if not any(r is chosen for r in running):
        hint = "what does your code return here: a request that is in RUNNING, or something else?"
    after = [r.request_id for r in running]
    if after != order:
        rule = "Choosing changes nothing: RUNNING has the same requests in the same order afterwards."
        hint = "which of your operations changes `running` itself?"
    expect_equal(
        {"victim": name, "RUNNING afterwards": after},
        {"victim": victim, "RUNNING afterwards": order},
        rule=rule,
        situation=situation,
        hint=hint,
    )


@pytest.mark.parametrize("order", ["ABC", "CAB", "B"])
def test_fcfs_takes_the_last_one(phase3: ModuleType, order: str) -> None:
    running = {"A": runner("A", 8, 9, 9.0), "B": runner("B", 8, 0, 0.0), "C": runner("C", 8, 5, 3.0)}
    check_victim(
        phase3,
        [running[name] for name in order],
        "fcfs",
        order[-1],
        "Under fcfs the victim is the last of RUNNING, whatever its rank. Choosing removes no request.",
        "which request was admitted last, and where does RUNNING have it?",
    )


@pytest.mark.parametrize(
    ("ranks", "victim", "rule"),
    [
        ([(0, 9.0), (3, 1.0), (1, 5.0)], "B", "Under priority the victim has the largest priority number."),
        ([(-5, 9.0), (-1, 1.0), (-3, 5.0)], "B", "Numbers below 0 are priorities like others."),
        ([(2, 1.0), (2, 7.0), (2, 3.0), (1, 9.0)], "B", "Of equal priority the latest arrival is the victim."),
        ([(2, 1.25), (2, 1.75), (2, 1.5)], "B", "Parts of a second count."),
        ([(900, 1.0), (901, 0.0), (900, 2.0)], "B", "Priorities may be large."),
        ([(1, 5.0), (1, 5.0), (0, 9.0)], "A", "Of full ties the first in running order is the victim."),
        ([(0, 9.0), (1, 5.0), (1, 2.0), (1, 5.0)], "B", "Of full ties the first in running order is the victim."),
        ([(4, 0.0)], "A", "A single running request is the victim."),
    ],
)
def test_priority_takes_the_least_urgent(
    phase3: ModuleType, ranks: list[tuple[int, float]], victim: str, rule: str
) -> None:
    running = [runner(name, 8, *rank_of) for name, rank_of in zip("ABCD", ranks, strict=False)]
    check_victim(
        phase3,
        running,
        "priority",
        victim,
        rule,
        "write (priority, arrival time) under each. Which is the largest, and of equal ones, which comes first?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_victim_agrees_with_a_slow_search(phase3: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(NUM_STATES + 1):
        names = some_ids(rng, rng.randint(1, 6) if number < NUM_STATES else 120)
        ranks = rng.choice(RANKS)
        running = [with_a_past(rng, runner(name, 8, rng.choice(ranks[0]), rng.choice(ranks[1]))) for name in names]
        latest = max((r.priority, r.arrival_time) for r in running)
        least_urgent = [r.request_id for r in running if (r.priority, r.arrival_time) == latest]
        victims: dict[Policy, str] = {"fcfs": names[-1], "priority": least_urgent[0]}
        for policy, victim in victims.items():
            check_victim(
                phase3,
                running,
                policy,
                victim,
                "fcfs: the last one. priority: the largest (priority, arrival time), of equals the first in RUNNING.",
                "write (priority, arrival time) under each name. Which is the largest, and where does it come first?",
            )
