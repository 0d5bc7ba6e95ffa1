"""Two checks of a phase in whole engines: the oracle tests it alone, the stack with the phases before it."""

import threading
import time
from dataclasses import replace

from course.grading.results import NOT_CHECKED, EngineCheck
from course.grading.worker import GradingWorker, receive_events
from course.oracle.divergence import with_phase
from course.sandbox.explain import explain_death
from course.sandbox.watch import waiting_seconds
from mini_vllm.assembly.lineup import CHECKOUT, Lineup, parse_lineup
from mini_vllm.assembly.parts import solutions_exist

SECONDS = {"oracle": 10.0, "stack": 10.0, "model": 120.0}
START_SECONDS = 30.0
MAX_WAITING = 300.0
MODEL_FILE = CHECKOUT / "mini_vllm" / "embedded_model" / "model.safetensors"
RUNNER_PHASE = 6


def oracle_check(phase: int, stop: threading.Event) -> EngineCheck:
    """Compare one phase with the reference, all others being the reference's. Needs `solutions/`."""
    if phase == RUNNER_PHASE or not solutions_exist():
        return NOT_CHECKED
    reference = stack_of("solution", max(phase, RUNNER_PHASE - 1))
    return run_job("oracle", with_phase(reference, phase, "starter"), reference, stop)


def stack_check(phase: int, stop: threading.Event) -> EngineCheck:
    """Run the learner's phases up to `phase` together, on the fake model, or on the real model with phase 6.

    An elective runs with phases 1 to 5.
    """
    return check_lineup(stack_of("starter", phase), phase, stop)


def phases_of_stack(phase: int) -> list[int]:
    """Return the phases that run together when `phase` is checked, itself last."""
    return [*range(1, min(phase, RUNNER_PHASE)), phase]


def stack_of(impl: str, phase: int) -> Lineup:
    """Return the lineup of these phases."""
    return parse_lineup(",".join(f"{impl}:{number}" for number in phases_of_stack(phase)))


def find_culprits(phase: int, stop: threading.Event) -> list[int]:
    """Return the phases that fix a stack when the reference's code replaces them one at a time. Needs `solutions/`."""
    mine = stack_of("starter", phase)
    return [
        number
        for number in phases_of_stack(phase)
        if check_lineup(with_phase(mine, number, "solution"), phase, stop).status == "passed"
    ]


def check_lineup(mine: Lineup, phase: int, stop: threading.Event) -> EngineCheck:
    """Run one stack."""
    if phase == RUNNER_PHASE:
        on_fake_model = check_lineup(replace(mine, runner="absent"), phase - 1, stop)
        if on_fake_model.status != "passed":
            return on_fake_model
        if not MODEL_FILE.exists():
            return replace(NOT_CHECKED, message="The embedded model is missing.")
        return run_job("model", mine, None, stop)
    return run_job("stack", mine, stack_of("solution", phase) if solutions_exist() else None, stop)


def run_job(kind: str, mine: Lineup, reference: Lineup | None, stop: threading.Event) -> EngineCheck:
    """Do one check in a worker. Raises `StoppedError` when `stop` is set."""
    seconds = SECONDS[kind]  # of CPU time
    order = {"kind": kind, "mine": str(mine), "reference": str(reference or ""), "seconds": seconds}
    patience = START_SECONDS + min(waiting_seconds(seconds), MAX_WAITING)
    with GradingWorker(["-m", "course.grading.engine_checks"], order) as worker:
        for event in receive_events(worker, patience, time.monotonic() + patience, stop):
            if isinstance(event, EngineCheck):
                return event
        status = None if worker.is_running else worker.status
        return EngineCheck("failed", explain_death(status, worker.trace, seconds)[1])
