"""Checks that several tasks of phase 1 use. Nothing here is to be filled in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from types import ModuleType
from typing import Any, NotRequired, TypedDict, Unpack

from course.labtest.expect import BESIDE, alone, difference_report, expect_equal, other_call
from course.labtest.failure import Shares
from course.labtest.phase1.situations import Scene, Situation, describe_plan, read_plan
from course.labtest.recorded import Answers, with_tuples
from course.labtest.support import make_request
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput

CLAMP = (
    "This step uses your `clamp`, which returned a wrong number: task 1.1 comes first.",
    "in this step {call}. Do the tests of task 1.1 pass?",
)
OTHER_LISTS = (
    "make_room is given the very RUNNING and WAITING of your step: it moves its victims from the one to the other.",
    "in this step make_room was given another object as {names}. Where does that object come from?",
)
ADMITS_AFTER_REFUSAL = (
    "Once a running request was refused memory, no request is admitted in this step.",
    "{refused} was refused in this step, and {admitted} is admitted later in it. Where does your code remember the "
    "refusal?",
)
ADMITTED_EARLY = (
    "Until it is sure that a waiting request is admitted, nothing about it is changed.",
    "in this step memory was asked for {name} when {name} was RUNNING already, although it did not run before. After "
    "which call is it sure that a request is admitted?",
)
OTHER_ORDER = (
    "the plan has the right entries in another order. In which order are requests served, and which of your lines "
    "decides that?"
)
NOT_IN_ORDER = (
    "Running requests are served in the order of RUNNING, whatever their priority and arrival time.",
    "in this step memory was asked for {first} before {second}, which stands before it in RUNNING. In which order does "
    "your loop go?",
)
SEEDS = (1, 2, 3, 4, 5)
NUM_STATES = 60


def decoding(name: str, num_tokens: int = 8) -> Request:
    """Return a running request with one token left to compute."""
    return make_request(name, num_tokens, num_computed_tokens=num_tokens - 1)


class Decided(TypedDict):
    """What a test expects of a step. WAITING is empty if it is left out; the rest is not compared then."""

    rule: str
    hint: str
    plan: str
    running: str
    waiting: NotRequired[str]
    budget_left: NotRequired[int]
    preempted: NotRequired[Sequence[tuple[str, str, int]]]
    calls: NotRequired[Sequence[str]]


def check_step(
    phase1: ModuleType, situation: Situation, *, use_your_clamp: bool = False, **wanted: Unpack[Decided]
) -> Scene:
    """Take one step and compare everything it decided with what the test expects; return the scene for another."""
    scene = Scene(situation)
    if use_your_clamp:
        scene.chunks.clamp = phase1.clamp
    check_next_step(phase1, scene, **wanted)
    return scene


def check_next_step(phase1: ModuleType, scene: Scene, **wanted: Unpack[Decided]) -> None:
    """Take a step in a scene, compare, and count its tokens as computed."""
    rule, hint, preempted = wanted["rule"], wanted["hint"], wanted.get("preempted", ())
    statuses = {name: request.status.name for name, request in scene.requests.items()}
    statuses |= {name: "PREEMPTED" for name, *_ in preempted}
    statuses |= {entry.split()[0]: "RUNNING" for entry in wanted["running"].strip("[]").split(", ") if entry}
    scheduler_output = scene.take_step(phase1, rule)
    expected: dict[str, object] = {
        "plan": wanted["plan"],
        "RUNNING": wanted["running"],
        "WAITING": wanted.get("waiting", "[]"),
        "statuses": {name: statuses[name] for name in sorted(statuses)},
        "preempted": list(preempted),
        "also changed": [],
    }
    if "budget_left" in wanted:
        expected["budget left"] = wanted["budget_left"]
    if "calls" in wanted:
        expected["calls"] = list(wanted["calls"])
    outcome = scene.outcome(scheduler_output)
    yours = {label: outcome[label] for label in expected}
    if yours != expected:
        rule, hint = seen_by_the_doubles(scene) or (rule, narrowed(yours, expected) or hint)
    shares = shares_of(scheduler_output, read_plan(wanted["plan"]), scene.situation.budget)
    expect_equal(yours, expected, rule=rule, situation=scene.before, hint=hint, calls=scene.log, shares=shares)
    scene.advance(scheduler_output)


def narrowed(
    yours: Mapping[str, Any], expected: Mapping[str, Any], labels: Iterable[str] = (*BESIDE, "WAITING")
) -> str:
    """Return a question about the one thing that differs, or about what does beside the plan; else an empty text."""
    wrong = [label for label in expected if yours[label] != expected[label]]
    if wrong == ["calls"]:
        return f"the calls alone differ, the rest is as expected. {parting(yours, expected)}"
    if "plan" in wrong and sorted(yours["plan"].split()) == sorted(expected["plan"].split()):
        return OTHER_ORDER
    if len(wrong) > 1 and expected["plan"] != "empty" and not {"plan", "calls"} & {*wrong}:
        return f"the plan is as expected, these differ: {', '.join(wrong)}. Which of your lines decide that, and when?"
    return alone(yours, expected, labels)


def parting(yours: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Return a question about the first call that is not as expected."""
    question = other_call(yours["calls"], expected["calls"], "calls")
    return question or "All calls are as expected: what does your code do with the answers?"


def shares_of(step: SchedulerOutput, expected: Mapping[str, int], budget: int) -> Shares:
    """Return a step's plan beside the expected one, without what is no number of tokens."""
    found = {str(name): amount for name, amount in step.num_scheduled_tokens.items() if type(amount) is int}
    return Shares(dict(expected), found, budget)


def seen_by_the_doubles(scene: Scene) -> tuple[str, str] | None:
    """Return (rule, hint) if the scene's last step made a call that is wrong whatever else differs."""
    if scene.chunks.wrong_clamp:
        return CLAMP[0], CLAMP[1].format(call=scene.chunks.wrong_clamp)
    if names := list(dict.fromkeys(scene.preemption.wrong_lists)):
        return OTHER_LISTS[0], OTHER_LISTS[1].format(names=" and ".join(f"`{name}`" for name in names))
    if early := scene.kv.admitted_early:
        return ADMITTED_EARLY[0], ADMITTED_EARLY[1].format(name=early[0])
    refused = [name for name in scene.preemption.asked_for if name in scene.running_before]
    admitted = [request.request_id for request in scene.running if request.request_id in scene.chunks.asked_with]
    if refused and admitted:
        return ADMITS_AFTER_REFUSAL[0], ADMITS_AFTER_REFUSAL[1].format(refused=refused[0], admitted=admitted[0])
    places = {name: place for place, name in enumerate(scene.running_before)}
    for first, second in pairwise(name for name in dict.fromkeys(scene.kv.served) if name in places):
        if places[first] > places[second]:
            return NOT_IN_ORDER[0], NOT_IN_ORDER[1].format(first=first, second=second)
    return None


def steps_of(
    phase1: ModuleType, situation: Situation, num_steps: int
) -> Iterator[tuple[Scene, SchedulerOutput, dict[str, object]]]:
    """Take steps in a scene; yield what each decided, with the plans of the earlier ones."""
    scene = Scene(situation)
    earlier: list[SchedulerOutput] = []
    for _ in range(num_steps):
        scheduler_output = scene.take_step(phase1)
        plans = [describe_plan(step.num_scheduled_tokens.items()) for step in earlier]
        yield scene, scheduler_output, scene.outcome(scheduler_output) | {"plans of earlier steps": plans}
        earlier.append(scheduler_output)
        scene.advance(scheduler_output)


def steps_differ(phase1: ModuleType, answers: Answers, situation: Situation, num_steps: int) -> str:
    """Take steps and compare with the recorded ones; return the report of the first that differs."""
    right = answers(lambda: [decided for *_, decided in steps_of(phase1, deepcopy(situation), num_steps)])
    steps = zip(right, steps_of(phase1, situation, num_steps), strict=True)
    for number, (expected, (scene, scheduler_output, yours)) in enumerate(steps, start=1):
        if yours != with_tuples(expected):
            right_now = with_tuples(expected)
            rule, hint = seen_by_the_doubles(scene) or (
                f"Step {number} of a random case differs from the rules in the handout.",
                narrowed(yours, right_now, labels=right_now) or parting(yours, right_now),
            )
            return difference_report(
                yours,
                with_tuples(expected),
                rule=rule,
                situation=scene.before,
                hint=hint,
                calls=scene.log,
                shares=shares_of(scheduler_output, read_plan(expected["plan"]), situation.budget),
            )
    return ""
