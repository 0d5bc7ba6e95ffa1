"""Runs the graded tests of one phase on the learner's file, in worker processes, until each has a result."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.environment import GRADE_SECONDS
from mini_vllm_labs.grading.plan import PlannedPhase
from mini_vllm_labs.grading.results import TestResult
from mini_vllm_labs.grading.spare_worker import SpareWorker, worker_for
from mini_vllm_labs.grading.starter_file import complaint_about_file, sha256
from mini_vllm_labs.grading.worker import (
    End,
    Event,
    Importing,
    Loaded,
    NotGradable,
    Outdated,
    TestStarted,
    receive_events,
)
from mini_vllm_labs.runs.sandbox.explain import explain_death, shown_path
from mini_vllm_labs.runs.sandbox.watch import waiting_seconds

SECONDS_PER_TEST = GRADE_SECONDS.get()  # seconds of CPU time; a slow machine may need more
IMPORT_SECONDS = SECONDS_PER_TEST  # torch has already been imported
SECONDS_PER_PHASE = 600.0  # wall-clock time, on a machine shared by four users
SILENCE_SECONDS = max(60.0, waiting_seconds(SECONDS_PER_TEST) + 10)
LOOP = "Not run: the test before this one did not end."
# a crash costs one worker and one test; a file in which every test crashes must also finish eventually
MAX_WORKERS = 40


@dataclass
class TestRun:
    """The results so far, and the state of the file. If `error` is set, no result counts."""

    phase: PlannedPhase
    sha256: str = ""
    error: str = ""
    missing: list[str] = field(default_factory=list)
    results: dict[str, TestResult] = field(default_factory=dict)
    running: str | None = None
    importing: bool = False
    is_outdated: bool = False

    @property
    def starter(self) -> Path:
        return CHECKOUT / self.phase.starter

    @property
    def left(self) -> list[str]:
        return [test for test in self.phase.tests if test not in self.results]

    def complete(self) -> list[TestResult]:
        """Return one result for every test in the plan."""
        absent = "This test is in the plan but not in labs/: did the tests in labs/ change?"
        return [self.results.get(test) or TestResult(test, "not run", absent) for test in self.phase.tests]


def run_tests(
    phase: PlannedPhase,
    stop: threading.Event,
    *,
    forks: bool,
    on_progress: Callable[[int], None],
    spare: SpareWorker | None = None,
) -> TestRun:
    """Run a phase's tests, using `spare` as the first worker. Raises `StoppedError` when `stop` is set."""
    run = TestRun(phase)
    run.error = complaint_about_file(run.starter)
    if run.error:
        return run
    run.sha256 = sha256(run.starter)
    if run.sha256 == phase.untouched_sha256:
        leave_out(run)
        on_progress(len(run.results))
        return run
    deadline = time.monotonic() + SECONDS_PER_PHASE
    for _ in range(MAX_WORKERS):
        if run_worker(run, stop, deadline, forks, on_progress, spare) or run.error:
            break
    else:
        charge_the_rest(run, f"Not run: Python ended {MAX_WORKERS} times in the tests before this one.")
    return run


def leave_out(run: TestRun) -> None:
    """Give every test of an untouched starter the result "not started" without running it.

    One of the course's own tests verifies that running them would give the same results.
    """
    for task in run.phase.tasks:
        message = f"Not written yet: Phase {run.phase.number}, task {task.number}"
        for test in task.tests:
            finish(run, TestResult(test, "not started", message))


def run_worker(
    run: TestRun,
    stop: threading.Event,
    deadline: float,
    forks: bool,
    on_progress: Callable[[int], None],
    spare: SpareWorker | None,
) -> bool:
    """Run the tests that have no result yet, all in one worker. Return whether the run is complete."""
    waiting, has_waited = spare.take(run.phase) if spare else (worker_for(run.phase), False)
    order = {
        "phase": run.phase.number,
        "folder": run.phase.folder,
        "module": run.phase.module,
        "starter": str(run.starter),
        "names": run.phase.names,
        "tests": run.left,
        "seconds": SECONDS_PER_TEST,
        "import_seconds": IMPORT_SECONDS,
        "late": [result.id for result in run.results.values() if result.outcome == "timeout"],
        "forks": forks,
        "shares_process": spare is not None,
        "has_waited": has_waited,
    }
    run.running, run.importing, run.is_outdated, ended = None, False, False, False
    with waiting as worker:
        worker.give(order)
        for event in receive_events(worker, SILENCE_SECONDS, deadline, stop):
            take(run, event)
            on_progress(len(run.results))
            ended = isinstance(event, End)
            if spare and isinstance(event, TestResult) and event.outcome == "timeout":
                charge_the_rest(run, LOOP)
                return True
        if ended:
            return not run.is_outdated
        if time.monotonic() > deadline:
            charge_the_rest(run, f"Not run: the tests of this phase took more than {SECONDS_PER_PHASE:g} seconds.")
            return True
        status = None if worker.is_running else worker.status
        seconds = IMPORT_SECONDS if run.importing else SECONDS_PER_TEST
        outcome, message = explain_death(status, worker.trace, seconds, SILENCE_SECONDS)
        if run.running is not None:
            finish(run, TestResult(run.running, outcome, message))
            if spare and outcome == "timeout":
                charge_the_rest(run, LOOP)
        elif run.importing:
            run.error = f"{shown_path(run.starter)} cannot be imported. {message}"
        else:
            run.error = f"The worker ended before the first test (exit status {status}):\n{worker.output[-1500:]}"
    return not run.left


def take(run: TestRun, event: Event) -> None:
    """Apply one event from the worker."""
    match event:
        case Importing():
            run.importing = True
        case Outdated():
            run.is_outdated = True
        case NotGradable(message):
            run.error = message
        case Loaded(file, file_sha256, missing):
            run.importing, run.missing = False, missing
            require_starter(run, file)
            if file_sha256 != run.sha256:
                run.error = f"{shown_path(run.starter)} was changed while it was graded. Grade again."
        case TestStarted(test):
            charge_silent(run)
            run.running = test
        case TestResult():
            if event.outcome == "passed" and event.module is not None:
                require_starter(run, event.module)
            finish(run, event)
        case End():
            charge_silent(run)


def finish(run: TestRun, result: TestResult) -> None:
    run.results.setdefault(result.id, result)
    run.running = None


def charge_silent(run: TestRun) -> None:
    """Fail the test whose process exited normally without sending a result, because the code under test called exit."""
    if run.running is not None:
        finish(run, TestResult(run.running, "crashed", "Your code ended the whole process."))


def charge_the_rest(run: TestRun, message: str) -> None:
    """Give the same result to every test that does not have one yet."""
    for test in run.left:
        finish(run, TestResult(test, "not run", message))


def require_starter(run: TestRun, file: str) -> None:
    """Record an error if the module under test is not the learner's file."""
    if Path(file).resolve() != run.starter.resolve():
        run.error = f"The tests loaded {file}, not {shown_path(run.starter)}: this would not grade your work."


def can_fork() -> bool:
    """Return whether each test can run in a forked process. Outside Linux, fork is absent or unsafe with torch."""
    return sys.platform == "linux"
