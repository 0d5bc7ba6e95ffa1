"""Computes the whole grade from tests and whole-engine checks, and names the phase at fault if the two disagree.

Two checks run a phase in whole engines: the oracle check uses the reference's other phases, and the stack check the
learner's.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic

from mini_vllm.assembly.lineup import CHECKOUT, Lineup, parse_lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.environment import GRADE_FORK
from mini_vllm_labs.grading.hints import hint_for, with_hint
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.results import NOT_CHECKED, EngineCheck, Grade, PhaseGrade, TaskGrade, TestResult
from mini_vllm_labs.grading.spare_worker import SpareWorker
from mini_vllm_labs.grading.starter_file import forgotten_breakpoints, modules_without_points
from mini_vllm_labs.grading.testrun import can_fork, run_tests
from mini_vllm_labs.grading.worker import GradingWorker, Importing, receive_events
from mini_vllm_labs.runs.sandbox.explain import explain_death
from mini_vllm_labs.runs.sandbox.watch import waiting_seconds

SECONDS = {"oracle": 10.0, "stack": 10.0, "model": 120.0}
START_SECONDS = 30.0
MAX_WAITING = 300.0
MODEL_FILE = CHECKOUT / "mini_vllm" / "embedded_model" / "model.safetensors"
RUNNER_PHASE = 6
DECIDE_NOTHING = (RUNNER_PHASE, 13)  # the runner does not plan steps, and the oracle's settings do not set a policy


def oracle_check(phase: int, stop: threading.Event) -> EngineCheck:
    """Compare an engine that contains one of the learner's phases with the reference. Needs `solutions/`."""
    if phase in DECIDE_NOTHING or not solutions_exist():
        return NOT_CHECKED
    reference = stack_of("solution", max(phase, RUNNER_PHASE - 1))
    return run_job("oracle", reference.with_phase(phase, "starter"), reference, stop)


def stack_check(phase: int, stop: threading.Event) -> EngineCheck:
    """Run the learner's phases up to `phase` together, on the fake model, or on the real model with phase 6.

    An elective runs with phases 1 to 5.
    """
    return check_lineup(stack_of("starter", phase), phase, stop)


def phases_of_stack(phase: int) -> list[int]:
    """Return the phases that run together when `phase` is checked, with `phase` last."""
    return [*range(1, min(phase, RUNNER_PHASE)), phase]


def stack_of(impl: str, phase: int) -> Lineup:
    return parse_lineup(",".join(f"{impl}:{number}" for number in phases_of_stack(phase)))


def find_culprits(phase: int, stop: threading.Event) -> list[int]:
    """Replace one phase of a stack at a time with the reference's; return the phases whose replacement fixes the stack.

    Needs `solutions/`.
    """
    mine = stack_of("starter", phase)
    return [
        number
        for number in phases_of_stack(phase)
        if check_lineup(mine.with_phase(number, "solution"), phase, stop).status == "passed"
    ]


def check_lineup(mine: Lineup, phase: int, stop: threading.Event) -> EngineCheck:
    if phase == RUNNER_PHASE:
        # A mistake in an earlier phase shows up sooner and more clearly without the real model.
        on_fake_model = check_lineup(replace(mine, runner="absent"), phase - 1, stop)
        if on_fake_model.status != "passed":
            return on_fake_model
        if not MODEL_FILE.exists():
            return replace(NOT_CHECKED, message="The embedded model is missing.")
        return run_job("model", mine, None, stop)
    return run_job("stack", mine, stack_of("solution", phase) if solutions_exist() else None, stop)


def run_job(kind: str, mine: Lineup, reference: Lineup | None, stop: threading.Event) -> EngineCheck:
    """Run one check in a worker. Raises `StoppedError` when `stop` is set."""
    seconds = SECONDS[kind]  # seconds of CPU time
    order = {"kind": kind, "mine": str(mine), "reference": str(reference or ""), "seconds": seconds}
    patience = START_SECONDS + min(waiting_seconds(seconds), MAX_WAITING)
    with GradingWorker(["-m", "mini_vllm_labs.grading.engine_checks"]) as worker:
        worker.give(order)
        importing = 0
        for event in receive_events(worker, patience, time.monotonic() + patience, stop):
            if isinstance(event, EngineCheck):
                return event
            if isinstance(event, Importing):
                importing = event.phase
        status = None if worker.is_running else worker.status
        message = explain_death(status, worker.trace, seconds, patience)[1]
        return EngineCheck("not graded", message, [importing]) if importing else EngineCheck("failed", message)


PHASES_AT_ONCE = 2
OnProgress = Callable[[int, int, str], None]


class Grader:
    """Grades phases. Calls `on_progress` with a phase, the number of its finished tests, and its activity."""

    def __init__(self, on_progress: OnProgress = lambda phase, done, what: None, *, forks: bool | None = None) -> None:
        self.on_progress = on_progress
        self.forks = forks
        self.stop = threading.Event()

    def grade(self, numbers: Sequence[int]) -> Grade:
        """Grade the phases with these numbers. No worker is left running when this function returns or raises an
        error."""
        start = monotonic()
        plan = [phase for phase in load_whole_plan() if phase.number in numbers]
        with ThreadPoolExecutor(min(PHASES_AT_ONCE, os.cpu_count() or 1)) as pool:
            try:
                # The last phase takes longest (it uses torch), so it is started first.
                grades = list(pool.map(self.grade_alone, reversed(plan)))
                grades = list(pool.map(lambda grade: self.grade_in_stack(grade, grades), grades))[::-1]
                grades = list(pool.map(lambda grade: self.name_culprits(grade, grades), grades))
            except BaseException:  # also Ctrl-C
                self.stop.set()  # the next line does not cancel workers that are running
                pool.shutdown(cancel_futures=True)
                raise
        return Grade(grades, monotonic() - start)

    def grade_alone(self, phase: PlannedPhase) -> PhaseGrade:
        number, total = phase.number, len(phase.tests)
        self.on_progress(number, 0, "tests")

        def report(num_done: int) -> None:
            self.on_progress(number, num_done, "tests")

        grade = grade_tests(phase, self.stop, forks=self.forks, on_progress=report)
        if grade.is_complete:
            self.on_progress(number, total, "oracle")
            grade = replace(grade, oracle=oracle_check(number, self.stop))
        return grade

    def grade_in_stack(self, grade: PhaseGrade, grades: Sequence[PhaseGrade]) -> PhaseGrade:
        """Run one phase with the earlier ones, unless one of them cannot be loaded or never finishes."""
        number, total = grade.plan.number, len(grade.plan.tests)
        if grade.can_run:
            others = [other for other in grades if other.plan.number in phases_of_stack(number)]
            self.on_progress(number, total, "stack")
            if missing := sorted(other.plan.number for other in others if other.error):
                check = EngineCheck("not graded", culprits=missing)
            elif endless := sorted(other.plan.number for other in others if "timeout" in other.outcomes):
                check = EngineCheck("endless", culprits=endless)
            else:
                check = stack_check(number, self.stop)
            grade = replace(grade, stack=check)
        self.on_progress(number, total, "done")
        return grade

    def name_culprits(self, grade: PhaseGrade, grades: Sequence[PhaseGrade]) -> PhaseGrade:
        """Add the phase at fault to the grade of a phase that passes alone but fails in the stack."""
        if grade.alone != "passed" or grade.stack.status != "failed":
            return grade
        number = grade.plan.number
        culprits = find_culprits(number, self.stop) if solutions_exist() else []
        if not culprits:
            culprits = self.suspects(number, {other.plan.number: other for other in grades})
        return replace(grade, stack=replace(grade.stack, culprits=culprits))

    def suspects(self, number: int, grades: dict[int, PhaseGrade]) -> list[int]:
        """Return the first earlier phase whose own stack fails or cannot run.

        If all earlier stacks work, return this phase and every earlier phase that fails its own tests.
        """
        failing = []
        for earlier in phases_of_stack(number)[:-1]:
            known = grades.get(earlier)
            if known is not None and not known.can_run:
                return [earlier]
            if (known.stack if known else stack_check(earlier, self.stop)).status == "failed":
                return [earlier]
            failing += [earlier] if known and known.alone == "failed" else []
        return [*failing, number]


def grade_tests(
    phase: PlannedPhase,
    stop: threading.Event,
    *,
    forks: bool | None = None,
    on_progress: Callable[[int], None] = lambda num_done: None,
    spare: SpareWorker | None = None,
) -> PhaseGrade:
    """Run the tests of the tasks in `phase`, without engine checks. Raises `StoppedError`.

    With `spare`, a waiting worker is used, and no more tests run after an endless loop.
    """
    if forks is None:
        forks = can_fork() and GRADE_FORK.get()
    run = run_tests(phase, stop, forks=forks, on_progress=on_progress, spare=spare)
    results = {result.id: result for result in run.complete()}
    tasks = [
        TaskGrade(task, hinted(f"{phase.number}.{task.number}", [results[test] for test in task.tests]))
        for task in phase.tasks
    ]
    content = b"" if run.error else run.starter.read_bytes()
    notes = [forgotten_breakpoints(content), modules_without_points(content, phase.number)]
    return PhaseGrade(phase, run.sha256, tasks, run.error, run.missing, note=" ".join(filter(None, notes)))


def hinted(task: str, results: list[TestResult]) -> list[TestResult]:
    """Replace the questions of failed tests with the hint for a known mistake, if the answers indicate one."""
    hint = hint_for(task, {result.id: result.answer for result in results if result.outcome != "passed"})
    return [
        result if result.outcome == "passed" else replace(result, message=with_hint(result.message, hint))
        for result in results
    ]
