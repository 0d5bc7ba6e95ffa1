"""Graded tests for task 13.2: least slack first."""

import random
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from labs.phase13_scheduling_policies.runs import CONFIG, ONE_SEAT, STEP_SECONDS, Run, asked
from labs.phase13_scheduling_policies.shared_rules import check_no_idle_step, check_same_tokens
from mini_vllm import EngineConfig
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.expect import expect_equal, lab_failure
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase13_plays
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

MARGIN = 0.25 * STEP_SECONDS


def run_of(phase13: ModuleType, requests: Sequence[TimedRequest], config: EngineConfig, **estimates: float) -> Run:
    estimates = {"seconds_per_token": 0.0, "seconds_per_step": STEP_SECONDS} | estimates
    return Run(phase13.LeastSlackFirst(**estimates), requests, config)


def check_kept(run: Run, what: str, hint: str) -> None:
    if late := run.late():
        name, how = next(iter(late.items()))
        lab_failure(
            rule="If all promises can be kept, they are kept.",
            situation=[what, f"the order of the first tokens: {' '.join(run.order[:30])}"],
            expected="no promise broken",
            yours=f"{len(late)} of {len(run.requests)} broken; {name}: {how}",
            hint=hint,
        )
    if not run.preempted:
        check_no_idle_step(run, what)


def begin_step(policy: SchedulingPolicy, now: float) -> None:
    policy.start_step(StepView(now, [], FCFSRequestQueue(), 99, 4, 2, 16))


def hidden_schedule(seed: int, num_output: int, kinds: Sequence[str]) -> list[TimedRequest]:
    """Return equal-sized requests for a single slot; when served in a certain hidden order, they all meet their limits.
    One request arrives during each turn."""
    rng = random.Random(seed)
    turn = num_output * STEP_SECONDS
    arrivals = [0.0] * 6 + [(number + 0.5) * turn for number in range(20)]
    due: dict[int, float] = {}
    for number in range(len(arrivals)):
        start = number * turn
        here = [one for one, at in enumerate(arrivals) if at <= start and one not in due]
        chosen = here[0] if number % 4 == 3 else rng.choice(here)
        due[chosen] = start + turn + MARGIN
    requests = []
    for number, at in enumerate(arrivals):
        kind = rng.choice(kinds)
        # Each token after the first takes one step, so the first arrives that many steps before the last.
        early = (num_output - 1) * STEP_SECONDS if kind == "ttft" else 0.0
        level = ServiceLevel(kind, **{kind: due[number] - early - at})
        requests.append(asked(f"r{number}", 4, num_output, at, level=level))
    return requests


def test_slack_in_seconds(phase13: ModuleType) -> None:
    for num_first in (1, 3):  # with drafts, the first output may contain several tokens
        policy = phase13.LeastSlackFirst(0.0001, 0.01)
        a = Request("request A", [1] * 300, arrival_time=1.9, service_level=ServiceLevel(ttft=0.5))
        b = Request("request B", [1] * 5, arrival_time=1.5, service_level=ServiceLevel(tpot=0.05))
        c = Request(
            "request C", [1] * 100, SamplingParams(max_tokens=150), arrival_time=1, service_level=ServiceLevel(e2e=3)
        )
        begin_step(policy, 1.5)
        b.all_token_ids += [1] * num_first
        policy.sampled(b, num_first)
        other = Request("request E", [1] * 5)  # finishes in the meantime
        other.status = RequestStatus.FINISHED_STOPPED
        for now in (1.6, 2.0):
            begin_step(policy, now)
            policy.sampled(other, 1)
        b.all_token_ids += [1] * (10 - num_first)
        b.num_computed_tokens = 14
        found = {one.request_id[-1]: round(policy.slack(one), 6) for one in (a, b, c, Request("request D", [1]))}
        expect_equal(
            found,
            {"A": 0.36, "B": 0.0899, "C": 0.49, "D": float("inf")},
            rule="Slack is the time until a promise would be broken, minus the work before that.",
            situation=["the four requests of the handout at 2 s", f"B's first {num_first} came by the step at 1.6 s"],
            hint="when is this request's token due, counted from which moment, and how much work comes before it?",
        )
        b.num_computed_tokens = 0
        expect_equal(
            round(policy.slack(b), 6),
            0.0885,
            rule="Tokens that a preempted request must compute again are work before its next token.",
            situation="B again, after it was preempted: none of its 5 prompt and 10 generated tokens is computed",
            hint="how many tokens does the step with B's next token compute, and how long does each of them take?",
        )


def test_what_can_come_in_time_comes_in_time(phase13: ModuleType) -> None:
    for seed in range(8):
        for num_output, kinds in ((1, ["ttft"]), (3, ["e2e", "ttft"])):
            run = run_of(phase13, hidden_schedule(seed, num_output, kinds), ONE_SEAT)
            what = (
                f"seed {seed}: one seat, output of {num_output}, limits of {' or '.join(kinds)}; one arrives each turn"
            )
            check_kept(
                run,
                what,
                "each time the seat is free: which slack does the late request have, and which goes first with which?",
            )


def test_what_takes_long_begins_early(phase13: ModuleType) -> None:
    config = replace(CONFIG, long_prefill_token_threshold=8)
    for limit, num_prompt, num_output in (("e2e", 2, 10), ("ttft", 80, 1)):
        short = [asked(f"short{n}", 2, 1, level=ServiceLevel("", **{limit: 0.1})) for n in range(4)]
        requests = [*short, asked("long", num_prompt, num_output, level=ServiceLevel("", **{limit: 0.105}))]
        run = run_of(phase13, requests, config, seconds_per_token=STEP_SECONDS / 8)
        what = f"2 seats, {limit}: 4 of 2 + 1 tokens are due at 0.100 s, one of {num_prompt} + {num_output} at 0.105 s"
        check_kept(run, what, "a step does 8 prompt tokens or one output token: what is left of 0.105 s without them?")


def test_without_a_promise_a_request_comes_last_and_is_served(phase13: ModuleType) -> None:
    promised = [asked(f"p{n}", 4, 2, 0.001 * n, level=ServiceLevel(ttft=5.0 + n % 3)) for n in range(9)]
    requests = [asked("first", 4, 2), *(asked(f"n{n}", 4, 2, 0.0005 + 0.001 * n) for n in range(9)), *promised]
    run = run_of(phase13, requests, ONE_SEAT)
    order = " ".join(name for name in run.order if name != "first")
    expected = " ".join([*(f"p{n}" for n in (0, 3, 6, 1, 4, 7, 2, 5, 8)), *(f"n{n}" for n in range(9))])
    # p0 and the first n arrive before the first step ends, so every request except `first` has arrived by the time the
    # order is decided.
    expect_equal(
        order,
        expected,
        rule="Requests with a promise come first, by slack, then those without one, by arrival.",
        situation="one seat; p0 to p8 have a ttft of 5, 6, 7, 5, ... seconds, n0 to n8 none",
        hint="at the first place that differs, what is the slack of the expected request, and of yours?",
    )
    check_no_idle_step(run, "one seat, with and without promises")


def test_of_equal_slack_the_first_to_come_is_first(phase13: ModuleType) -> None:
    for seed, level in enumerate([ServiceLevel(ttft=1.0), ServiceLevel(e2e=1.0), BEST_EFFORT]):
        names = [f"r{number}" for number in range(12)]
        random.Random(seed).shuffle(names)
        run = run_of(phase13, [asked(name, 4, 2, level=level) for name in names], ONE_SEAT)
        expect_equal(
            " ".join(run.order),
            " ".join(names),
            rule="Requests with equal slack go by arrival.",
            situation=f"one seat; all arrive at 0 s in this order, each with {level}",
            hint="are all slacks equal in your code, and which request comes first in that case?",
        )


@pytest.mark.parametrize("name", cases(phase13_plays, 2))
def test_who_is_served_and_who_gives_way(phase13: ModuleType, answers: Answers, name: str) -> None:
    check(phase13_plays, phase13, answers, 2, name)


def test_when_blocks_run_out_the_one_that_can_wait_gives_way(phase13: ModuleType) -> None:
    # 12 blocks of 4 tokens can hold any two of these, but not all three.
    tight = replace(CONFIG, max_num_seqs=3, num_gpu_blocks=13)
    levels = {"tpot": ServiceLevel(tpot=0.012), "e2e": ServiceLevel(e2e=0.21), "patient": ServiceLevel(e2e=9.0)}
    for order in (("tpot", "patient"), ("patient", "tpot"), ("e2e", "patient"), ("patient", "e2e")):
        requests = [asked(name, 4, 20, 0.001 * n, level=levels[name]) for n, name in enumerate(order)]
        requests += [asked("none", 4, 20, 0.0005)]
        run = run_of(phase13, requests, tight)
        what = f"blocks for two of three requests; they come as {order[0]}, none, {order[1]}"
        expect_equal(
            sorted(set(run.preempted)),
            ["none"],
            rule="The request with the most slack is preempted, and only if blocks run out.",
            situation=[what, f"{levels[order[0]]}, {levels[order[1]]}"],
            hint="in which order are your victims, and what is the slack of each, for its next and its last token?",
        )
        check_kept(run, what, "what is the slack of the late one, step by step, and which are served before it?")


def test_the_texts_are_those_of_first_come_first_served(phase13: ModuleType) -> None:
    check_same_tokens(phase13.LeastSlackFirst)
