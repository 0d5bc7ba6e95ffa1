"""Situations and checks that several tasks of phase 1 use."""

from collections.abc import Sequence
from types import ModuleType

from course.labtest.phase1.reference_model import PlainScheduler
from course.labtest.phase1.situations import (
    Scene,
    Situation,
    describe,
    describe_plan,
)
from course.labtest.phase1.symptoms import symptom_of_step
from course.labtest.support import compare, difference, make_request
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput

SEEDS = (1, 2, 3, 4, 5)


NUM_STATES = 60


def decoding(name: str, num_tokens: int = 8) -> Request:
    """Return a running request that is one token behind."""
    return make_request(name, num_tokens, num_computed_tokens=num_tokens - 1)


def check_step(
    phase1: ModuleType,
    situation: Situation,
    *,
    rule: str,
    hint: str,
    plan: str,
    running: str,
    waiting: str,
    budget_left: int | None = None,
    preempted: Sequence[tuple[str, str, int]] = (),
    calls: Sequence[str] | None = None,
    use_your_clamp: bool = False,
) -> None:
    """Take one step and compare all that it decided with what the test says."""
    statuses = {r.request_id: r.status.name for r in situation.waiting} | {name: "PREEMPTED" for name, *_ in preempted}
    statuses |= {entry.split()[0]: "RUNNING" for entry in running.strip("[]").split(", ") if entry}
    running_before = [r.request_id for r in situation.running]
    scene = Scene(situation)
    if use_your_clamp:
        scene.chunks.clamp = phase1.clamp
    yours = scene.outcome(scene.take_step(phase1))
    expected: dict[str, object] = {
        "plan": plan,
        "RUNNING": running,
        "WAITING": waiting,
        "statuses": {name: statuses[name] for name in sorted(statuses)},
        "preempted": list(preempted),
    }
    if budget_left is not None:
        expected["budget left"] = budget_left
    if calls is not None:
        expected["calls"] = list(calls)
    better_rule, better_hint = symptom_of_step(scene.log, running_before, yours)
    compare(
        better_rule or rule,
        before=scene.before,
        expected=expected,
        yours=yours,
        hint=better_hint or hint,
        calls=scene.log,
    )


def _steps_differ(phase1: ModuleType, situation: Situation, num_steps: int) -> str:
    """Take steps beside the slow model; return the report of the first that differs."""
    model, scene = PlainScheduler(situation), Scene(situation)
    plans: list[tuple[SchedulerOutput, str]] = []
    for number in range(1, num_steps + 1):
        running_before = [r.request_id for r in scene.running]
        queues = f"before  RUNNING {describe(scene.running)}  WAITING {describe(list(scene.waiting))}"
        scene.log.clear()
        step = scene.take_step(phase1)
        model.step()
        yours = scene.outcome(step)
        rule, hint = symptom_of_step(scene.log, running_before, yours)
        report = difference(
            rule or f"Step {number} of a random case does not follow the numbered rules in the starter.",
            before=[queues, *scene.before[1:]],
            expected=model.outcome() | {"plans of earlier steps": [plan for _, plan in plans]},
            yours=yours
            | {"plans of earlier steps": [describe_plan(one.num_scheduled_tokens.items()) for one, _ in plans]},
            hint=hint or "go through the numbered rules with these requests; at which of your calls do you leave them?",
            calls=scene.log,
        )
        if report:
            return report
        plans.append((step, describe_plan(model.plan)))
        model.advance()
        scene.advance(step)
    return ""
